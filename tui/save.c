#include "tui/save.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/core/text.h"
#include "tui/header.h"
#include "tui/layout.h"

enum { SUFFIX_MAX = 10000, KINDS = 2, STEM_SIZE = PATH_MAX + 256, PATH_SIZE = STEM_SIZE + 32 };
static const char *const SUFFIX[KINDS] = {"txt", "csv"};

/* As it is, or in quotes where a comma would divide it. */
static void put_text(FILE *out, const char *text) {
    char safe[1024];
    text_escape(safe, sizeof safe, text);
    if (safe[strcspn(safe, ",\" ")] == '\0') {
        fputs(safe, out);
        return;
    }
    fputc('"', out);
    for (const char *at = safe; *at != '\0'; at++)
        fputs(*at == '"' ? "\"\"" : (char[]){*at, '\0'}, out);
    fputc('"', out);
}

static void put_number(FILE *out, double value) {
    fprintf(out, isnan(value) ? ",nan" : ",%.9g", value); /* printf may call one "-nan" */
}

static void put_value(FILE *out, const struct series_value *value) {
    bool finite = value->min <= value->max;
    fprintf(out, finite ? ",%.9g,%.9g" : ",,", (double)value->min, (double)value->max);
    if (value->present > 0)
        put_number(out, (double)value->last), fprintf(out, ",%" PRIu32 ",", value->present);
    else
        fputs(",,0,", out);
    static const char *const MARK[] = {"nan", "+inf", "-inf", "beyond"};
    bool first = true;
    for (int bit = 0; bit < 4; bit++) {
        if ((value->marks >> bit & 1) == 0) continue;
        fprintf(out, "%s%s", first ? "" : " ", MARK[bit]);
        first = false;
    }
}

static void put_columns(FILE *out, const struct view *view, const struct lens *lens) {
    int metric[LAYOUT_PANELS_MAX], panels = view_panels(view, metric);
    const struct run *run = lens->run;
    struct lens_window window = lens_window(lens);
    fputs("first_step,steps_a_column,steps,missing,band,thinned", out);
    for (int p = 0; p < panels; p++) {
        static const char *const PART[] = {"min", "max", "last", "present", "marks"};
        for (int i = 0; i < 5; i++) {
            char name[SCHEMA_METRIC_SIZE + 16];
            snprintf(name, sizeof name, "%s_%s", run->hello.schema.metric[metric[p]], PART[i]);
            fputc(',', out);
            put_text(out, name);
        }
    }
    fputc('\n', out);
    for (int c = 0; c < window.columns; c++) {
        struct series_column column;
        if (!lens_column(run, METRIC_LOSS, window, c, &column)) continue;
        fprintf(out, "%" PRId64 ",%" PRId64 ",%" PRIu32 ",%" PRIu32 ",%s,%d",
                window.left + c * (INT64_C(1) << window.shift), INT64_C(1) << window.shift,
                column.steps, column.missing, band_name(column.band), column.thinned);
        for (int p = 0; p < panels; p++) {
            lens_column(run, metric[p], window, c, &column);
            put_value(out, &column.value);
        }
        fputc('\n', out);
    }
}

static void put_metric(FILE *out, const struct lens *lens, int metric) {
    double value;
    bool fetching;
    if (lens_value(lens->run, metric, lens->number_step, &value, &fetching))
        put_number(out, value);
    else
        fputc(',', out);
}

/* A step, a number of steps: nothing where it is not known. */
static void put_steps(FILE *out, int64_t steps) {
    fputc(',', out);
    if (steps >= 0) fprintf(out, "%" PRId64, steps);
}

static void put_runs(FILE *out, const struct view *view) {
    fputs("run,source,step,loss,grad_norm,band,worst,onset,lead,link\n", out);
    for (int i = 0; i < view->runs; i++) {
        const struct lens *lens = &view->lens[i];
        const struct run *run = lens->run;
        put_text(out, run->hello.name);
        fputc(',', out);
        put_text(out, run->source);
        put_steps(out, lens->number_step);
        put_metric(out, lens, METRIC_LOSS);
        put_metric(out, lens, METRIC_GRAD_NORM);
        fprintf(out, ",%s,%s", band_name(header_band(run)), band_name(run->worst));
        put_steps(out, run->onset);
        put_steps(out, run->lead);
        fprintf(out, ",%s\n", run_link_name(run->link));
    }
}

char *save_numbers(const struct view *view) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (out == NULL) return NULL;
    const struct lens *lens = view_open_lens(view);
    if (lens != NULL)
        put_columns(out, view, lens);
    else
        put_runs(out, view);
    bool failed = ferror(out) != 0;
    if (fclose(out) == 0 && !failed) return text;
    free(text);
    return NULL;
}

/* "nantop-RUN-STEP": only what every file system takes. */
static void base_name(char *out, size_t size, const struct view *view) {
    const struct lens *lens = view_open_lens(view);
    if (lens == NULL)
        snprintf(out, size, "nantop-runs-%d", view->runs);
    else
        snprintf(out, size, "nantop-%.64s-%" PRId64,
                 lens->run->known ? lens->run->hello.name : "unknown", lens_step(lens));
    for (char *at = out; *at != '\0'; at++)
        if (strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-", *at) ==
            NULL)
            *at = '_';
}

/* A whole file under a temporary name. */
static int write_file(char *path, const char *text, struct error *error) {
    int file = mkstemp(path);
    if (file < 0) return error_set(error, "save into %s: %s", path, strerror(errno));
    size_t size = strlen(text), done = 0;
    while (done < size) {
        ssize_t written = write(file, text + done, size - done);
        if (written <= 0) break;
        done += (size_t)written;
    }
    int failure = done < size ? errno : 0;
    if (fchmod(file, 0644) != 0 && failure == 0) failure = errno;
    if (close(file) != 0 && failure == 0) failure = errno;
    if (failure == 0) return 0;
    unlink(path);
    return error_set(error, "save %s: %s", path, strerror(failure));
}

/* Gives a file its name unless there is one of that name. */
static int publish(const char *from, const char *to) {
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0) return 0;
    if (errno != EINVAL && errno != ENOSYS) return -1;
    if (link(from, to) != 0) return -1; /* a file system without the flag */
    unlink(from);
    return 0;
}

/* Both files under the first suffix that is free for both. Returns its number, -1 with errno. */
static int publish_pair(char temporary[KINDS][PATH_SIZE], const char *stem) {
    char path[KINDS][PATH_SIZE];
    for (int n = 1; n < SUFFIX_MAX; n++) {
        int named = 0;
        for (; named < KINDS; named++) {
            char number[16] = "";
            if (n > 1) snprintf(number, sizeof number, "-%d", n);
            snprintf(path[named], PATH_SIZE, "%s%s.%s", stem, number, SUFFIX[named]);
            if (publish(temporary[named], path[named]) == 0) continue;
            break;
        }
        if (named == KINDS) return n;
        int failure = errno;
        if (named == 1) rename(path[0], temporary[0]);
        errno = failure;
        if (failure != EEXIST) return -1;
    }
    return -1;
}

static const char *host_name(char *out, size_t size) {
    if (gethostname(out, size) != 0) text_copy(out, size, "localhost");
    out[size - 1] = '\0';
    return out;
}

int save_screen(const struct view *view, const struct grid *grid,
                const struct save_options *options, char *said, size_t size, struct error *error) {
    char base[128], stem[STEM_SIZE], folder[PATH_MAX], host[128], temporary[KINDS][PATH_SIZE];
    base_name(base, sizeof base, view);
    if (realpath(options->folder ? options->folder : ".", folder) == NULL)
        return error_set(error, "save into %s: %s", options->folder ? options->folder : ".",
                         strerror(errno));
    snprintf(stem, sizeof stem, "%s/%s", folder, base);
    char *text[KINDS] = {grid_to_text(grid, options->ascii), save_numbers(view)};
    int result = text[0] && text[1] ? 0 : error_set(error, "save %s: no memory", base), written = 0;
    for (; result == 0 && written < KINDS; written += result == 0) {
        snprintf(temporary[written], PATH_SIZE, "%s/.nantop-XXXXXX", folder);
        result = write_file(temporary[written], text[written], error);
    }
    int number = result == 0 ? publish_pair(temporary, stem) : -1;
    if (result == 0 && number < 0) result = error_set(error, "save %s: %s", stem, strerror(errno));
    for (int i = 0; result != 0 && i < written; i++) unlink(temporary[i]);
    if (result == 0 && number > 1)
        snprintf(said, size, "saved %s:%s-%d.txt and .csv", host_name(host, sizeof host), stem,
                 number);
    else if (result == 0)
        snprintf(said, size, "saved %s:%s.txt and .csv", host_name(host, sizeof host), stem);
    for (int i = 0; i < KINDS; i++) free(text[i]);
    return result;
}
