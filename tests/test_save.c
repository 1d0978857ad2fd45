/* What `s` leaves behind: the text of the screen and the numbers, never over another file, never
 * half. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/help_run.h"
#include "tui/save.h"

static struct run runs[2];
static struct view view;
static struct grid grid;
static char folder[64];

static void show(int rows, int columns) {
    view_resize(&view, rows, columns);
    view_tick(&view, 1);
    assert_int_equal(grid_resize(&grid, rows, columns), 0);
    view_draw(&view, &grid);
}

static int setup(void **state) {
    (void)state;
    strcpy(folder, "/tmp/test-save-XXXXXX");
    assert_non_null(mkdtemp(folder));
    help_run_tell(&runs[0], &HELP_FAILING);
    view_init(&view, LENS_FREEZE_ALARM, "");
    view_add(&view, &runs[0]);
    show(24, 80);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    run_free(&runs[0]);
    grid_free(&grid);
    return system(command);
}

static char *read_file(const char *name) {
    char path[256];
    static char text[1 << 18];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

static int files(void) {
    int count = 0;
    DIR *all = opendir(folder);
    for (struct dirent *entry; (entry = readdir(all)) != NULL;)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(all);
    return count;
}

static void save(const char *wanted) {
    char said[512], host[128], line[512];
    struct error error = {""};
    int result =
        save_screen(&view, &grid, &(struct save_options){folder, false}, said, sizeof said, &error);
    assert_string_equal(error.text, "");
    assert_int_equal(result, 0);
    gethostname(host, sizeof host);
    snprintf(line, sizeof line, "saved %s:%s/%s.txt and .csv", host, folder, wanted);
    assert_string_equal(said, line);
}

static void test_text_and_numbers(void **state) {
    (void)state;
    save("nantop-sbac-202-160");
    assert_int_equal(files(), 2);
    char *screen = grid_to_text(&grid, false);
    assert_string_equal(read_file("nantop-sbac-202-160.txt"), screen);
    free(screen);
    const char *csv = read_file("nantop-sbac-202-160.csv");
    static const char HEAD[] = "first_step,steps_a_column,steps,missing,band,thinned,"
                               "loss_min,loss_max,loss_last,loss_present,loss_marks,grad_norm_min,";
    assert_memory_equal(csv, HEAD, sizeof HEAD - 1);
    const char *onset = strstr(csv, "\n160,1,1,0,extreme,0,"),
               *dead = strstr(csv, "\n166,1,1,0,non-finite,0,,,nan,1,nan,");
    assert_non_null(onset);
    assert_non_null(dead);
    double lowest, highest, last;
    assert_int_equal(sscanf(onset, "\n160,1,1,0,extreme,0,%lf,%lf,%lf,1", &lowest, &highest, &last),
                     3);
    assert_true(fabs(last - run_find_record(&runs[0], 160)->metric[METRIC_LOSS]) < 1e-6 * last &&
                lowest == highest);
    int lines = 0, commas = 0;
    for (const char *at = csv; *at; at++) lines += *at == '\n', commas += *at == ',';
    assert_int_equal(lines, 33); /* the panel has 32 columns */
    assert_int_equal(commas, 33 * (5 + 5 * 4));
    struct stat about;
    char path[128];
    snprintf(path, sizeof path, "%s/nantop-sbac-202-160.txt", folder);
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0644);
}

static void test_nothing_is_overwritten(void **state) {
    (void)state;
    save("nantop-sbac-202-160");
    save("nantop-sbac-202-160-2");
    char path[128];
    snprintf(path, sizeof path, "%s/nantop-sbac-202-160-3.csv",
             folder); /* only one of the two is taken */
    FILE *file = fopen(path, "w");
    fputs("mine", file);
    fclose(file);
    save("nantop-sbac-202-160-4");
    assert_string_equal(read_file("nantop-sbac-202-160-3.csv"), "mine");
    assert_int_equal(files(), 7);
}

static void test_failures_leave_nothing(void **state) {
    (void)state;
    char said[512];
    struct error error;
    assert_int_equal(save_screen(&view, &grid, &(struct save_options){"/nonexistent", false}, said,
                                 sizeof said, &error),
                     -1);
    assert_string_equal(error.text, "save into /nonexistent: No such file or directory");
    assert_int_equal(save_screen(&view, &grid, &(struct save_options){"/proc/self", false}, said,
                                 sizeof said, &error),
                     -1);
    assert_non_null(strstr(error.text, "save into /proc/"));
    assert_int_equal(files(), 0);
}

static void test_overview_and_hostile_names(void **state) {
    (void)state;
    struct help_story story = HELP_HEALTHY;
    story.name = "../\"x\",\n\033";
    view_init(&view, LENS_FREEZE_ALARM, "");
    view_add(&view, &runs[0]);
    help_run_tell(&runs[1], &story);
    view_add(&view, &runs[1]);
    show(24, 80);
    save("nantop-runs-2");
    const char *csv = read_file("nantop-runs-2.csv");
    assert_non_null(
        strstr(csv, "run,source,step,loss,grad_norm,band,worst,onset,lead,link\nsbac-202,ipc:"));
    assert_non_null(strstr(csv, "\n\"../\"\"x\"\",\\x0a\\x1b\",ipc:"));
    assert_non_null(strstr(csv, ",finite,finite,,,stored\n")); /* neither onset nor lead */
    view.overview = false;
    view.selected = 1;
    show(24, 80);
    save("nantop-..__x____-300");
    run_free(&runs[1]);
}

/* A publisher may call its metrics anything. */
static void test_hostile_metric(void **state) {
    (void)state;
    struct hello hello;
    hello_init(&hello);
    assert_int_equal(hello_copy(&hello, &runs[0].hello), 0);
    strcpy(hello.run_id, "other");
    hello.schema.published = 0;
    schema_add_metric(&hello.schema, "a,b\n\033[2J");
    schema_seal(&hello.schema);
    assert_int_equal(run_apply_hello(&runs[0], &hello, NULL), 0);
    view_init(&view, LENS_FREEZE_ALARM, "");
    view_add(&view, &runs[0]);
    show(24, 80);
    char *csv = save_numbers(&view);
    assert_non_null(strstr(csv, ",thinned,\"a,b\\x0a\\x1b[2J_min\",\"a,b"));
    assert_ptr_equal(strchr(csv, '\n'), csv + strlen(csv) - 1); /* the names are one line */
    free(csv);
    hello_free(&hello);
}

int main(void) {
    if (setlocale(LC_CTYPE, "C.UTF-8") == NULL) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_text_and_numbers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nothing_is_overwritten, setup, teardown),
        cmocka_unit_test_setup_teardown(test_failures_leave_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_hostile_metric, setup, teardown),
        cmocka_unit_test_setup_teardown(test_overview_and_hostile_names, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
