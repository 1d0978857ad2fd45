#include "tui/panel.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/core/text.h"
#include "tui/bar.h"
#include "tui/phrase.h"
#include "tui/spark.h"

enum { HASH_COLUMNS = 100 /* with all of their digits, beside what else is said */ };

static const enum metric ORDER[] = {
    METRIC_LOSS,          METRIC_GRAD_NORM,
    METRIC_MOMENTUM_MAX,  METRIC_ACT_MAX,
    METRIC_UPDATE_RATIO,  METRIC_UPDATE_RATIO_MAX,
    METRIC_ACCURACY,      METRIC_PARAM_NORM,
    METRIC_GRAD_MAX,      METRIC_MOMENTUM_NORM,
    METRIC_SAMPLES_PER_S, METRIC_STEP_MS,
    METRIC_PARAM_MAX,     METRIC_LR,
    METRIC_LOSS_SCALE,    METRIC_STEP_SKIPPED,
};

int panel_list(const struct run *run, int metric[LAYOUT_PANELS_MAX]) {
    const struct schema *schema = &run->hello.schema;
    int count = 0;
    for (int i = 0; run->known && i < METRIC_COUNT && count < LAYOUT_PANELS_MAX; i++)
        if ((schema->published >> ORDER[i] & 1) != 0) metric[count++] = (int)ORDER[i];
    for (int i = METRIC_COUNT; run->known && i < schema->metrics && count < LAYOUT_PANELS_MAX; i++)
        metric[count++] = i;
    return count;
}

double panel_limit(const struct lens *lens, int metric) {
    bool update = metric == METRIC_UPDATE_RATIO;
    struct detector_limits limits;
    if (!update && metric != METRIC_UPDATE_RATIO_MAX) return (double)NAN;
    detector_limits_init(&limits);
    if (lens->judged != NULL) limits = *lens->judged;
    const char *key = update ? "threshold.update" : "threshold.runaway";
    const char *told = lens->judged ? NULL : hello_find_config(&lens->run->hello, key);
    if (told != NULL) return strtod(told, NULL);
    return update ? limits.update : limits.runaway;
}

/* Largest of a role's tensors in this record: the one that act_max is about; NULL: not known. */
static const char *largest_tensor(const struct run *run, const struct record *record,
                                  enum role role) {
    const char *name = NULL;
    double most = -1;
    for (int i = 0; record && i < record->tensors && i < run->hello.schema.tensors; i++) {
        const struct tensor_stat *stat = &record->tensor[i];
        if (run->hello.schema.tensor[i].role != role || stat->count < 0 || !(stat->max_abs > most))
            continue;
        most = stat->max_abs;
        name = run->hello.schema.tensor[i].name;
    }
    return name;
}

static const char *tensor_of(const struct run *run, int metric, int64_t step) {
    const struct record *record = run_find_record(run, step);
    if (record == NULL) return NULL;
    int ratio = record->update_ratio_max_tensor;
    switch (metric) {
    case METRIC_ACT_MAX:
        return largest_tensor(run, record, ROLE_ACTIVATION);
    case METRIC_GRAD_MAX:
        return largest_tensor(run, record, ROLE_GRADIENT);
    case METRIC_MOMENTUM_MAX:
        return largest_tensor(run, record, ROLE_MOMENTUM_BUFFER);
    case METRIC_UPDATE_RATIO_MAX:
        return ratio >= 0 && ratio < run->hello.schema.tensors
                   ? run->hello.schema.tensor[ratio].name
                   : NULL;
    default:
        return NULL;
    }
}

static enum grid_role value_text(char *out, size_t size, const struct lens *lens, int metric) {
    double value;
    bool fetching;
    if (!lens_value(lens->run, metric, lens_step(lens), &value, &fetching)) {
        text_copy(out, size, fetching && lens->frozen ? "fetching" : "-");
        return GRID_DIM;
    }
    phrase_number(out, size, value);
    return isfinite(value) ? GRID_TEXT : GRID_NONFINITE;
}

/* " loss conv1 ------------------- 0.0231": name, tensor, rule, value. */
static void draw_title(struct grid *grid, struct grid_rect rect, int metric,
                       const struct lens *lens, bool thinned) {
    char value[32];
    enum grid_role role = value_text(value, sizeof value, lens, metric);
    int end = rect.column + rect.columns - 1, at = rect.column + 1;
    const char *name = lens->run->hello.schema.metric[metric];
    at += grid_text(grid, rect.row, at, end - at, GRID_TITLE, name);
    const char *tensor = tensor_of(lens->run, metric, lens_step(lens));
    int room = end - at - 12; /* a value comes first */
    if (tensor != NULL && room > 4)
        at += 1 + grid_text(grid, rect.row, at + 1, room - 1, GRID_DIM, tensor);
    if (thinned && end - at > 20)
        at += 1 + grid_text(grid, rect.row, at + 1, 7, GRID_GAP, "thinned");
    int width = grid_columns(value);
    int start = end - width;
    for (at++; at < start - 1; at++) grid_put(grid, rect.row, at, 0x2500, GRID_BORDER);
    if (start >= at) grid_text(grid, rect.row, start, width, role, value);
}

/* At most 5 columns without a sign: "1e19", "0.02", "500". */
static void scale_text(char *out, size_t size, const struct spark *spark, double value) {
    if (spark->log)
        snprintf(out, size, "1e%d", (int)lround(log10(value)));
    else if (fabs(value) >= 1e5 || (value != 0 && fabs(value) < 1e-3))
        phrase_number(out, size, value);
    else
        snprintf(out, size, "%.3g", value);
    char *zeros = strstr(out, ".00e");
    if (zeros != NULL) memmove(zeros, zeros + 3, strlen(zeros + 3) + 1);
}

static void draw_scale(struct grid *grid, struct grid_rect rect, const struct spark *spark) {
    char text[32];
    for (int top = 0; top < 2 && spark->scaled; top++) {
        int row = top ? rect.row : rect.row + rect.rows - 1;
        if (!top && rect.rows == 1) continue;
        scale_text(text, sizeof text, spark, top ? spark->high : spark->low);
        int width = (int)strlen(text), room = LAYOUT_GUTTER - 1;
        grid_text(grid, row, rect.column + (width < room ? room - width : 0), room, GRID_DIM, text);
    }
}

static int cursor_column(const struct lens *lens, struct lens_window window) {
    return lens->frozen ? (int)((lens->cursor - window.left) >> window.shift) : -1;
}

void panel_draw(struct grid *grid, const struct layout *layout, int panel, int metric,
                const struct lens *lens) {
    struct grid_rect rect = layout->panel[panel];
    struct lens_window window = lens_window(lens);
    struct spark spark;
    spark_load(&spark, lens->run, metric, window, panel_limit(lens, metric));
    spark.role = (enum grid_role)(GRID_PANEL1 + panel % 4);
    spark.cursor = cursor_column(lens, window);
    draw_title(grid, rect, metric, lens, spark.thinned);
    struct grid_rect body = {rect.row + 1, rect.column, rect.rows - 1, rect.columns};
    if (layout->gutter > 0) draw_scale(grid, body, &spark);
    body.column += layout->gutter;
    body.columns = layout->data_columns;
    spark_draw(&spark, grid, body);
}

/* What the step under the cursor was trained on. */
static void add_hashes(struct bar *bar, const struct lens *lens, bool whole) {
    const struct record *record = run_find_record(lens->run, lens->cursor);
    if (record == NULL || !record->hashed) return;
    int digits = whole ? 16 : 8, rest = whole ? 0 : 32;
    bar_add(bar, 5, GRID_TEXT, "input %0*" PRIx64, digits, record->input_hash >> rest);
    bar_add(bar, 5, GRID_TEXT, "label %0*" PRIx64, digits, record->label_hash >> rest);
}

static void add_columns(struct bar *bar, const struct lens *lens, struct lens_window window) {
    int64_t width = INT64_C(1) << window.shift, last = window.left + window.columns * width - 1;
    if (last > window.last) last = window.last;
    if (last > lens->run->series.last) last = lens->run->series.last;
    char from[32], to[32];
    text_count(from, sizeof from, window.left);
    text_count(to, sizeof to, last);
    bar_add(bar, 3, GRID_DIM, "%" PRId64 " step%s a column", width, width == 1 ? "" : "s");
    bar_add(bar, 2, GRID_DIM, "%s to %s", from, to);
    if (lens->frozen)
        bar_add(bar, 4, GRID_DIM, "cursor %s", text_count(to, sizeof to, lens->cursor));
}

void panel_draw_health(struct grid *grid, const struct layout *layout, const struct lens *lens) {
    struct grid_rect rect = layout->health;
    struct lens_window window = lens_window(lens);
    struct spark spark;
    spark_load(&spark, lens->run, METRIC_LOSS, window, (double)NAN);
    spark.cursor = cursor_column(lens, window);
    if (layout->gutter > 0)
        grid_text(grid, rect.row, rect.column, layout->gutter, GRID_DIM, "health");
    struct grid_rect strip = {rect.row, rect.column + layout->gutter, 1, layout->data_columns};
    spark_draw_bands(&spark, grid, strip);
    int at = strip.column + strip.columns, room = rect.column + rect.columns - at;
    struct bar bar = {0};
    if (lens->run->series.last < 0) return;
    if (lens->frozen) add_hashes(&bar, lens, room >= HASH_COLUMNS);
    add_columns(&bar, lens, window);
    bar_draw(&bar, grid, (struct grid_rect){rect.row, at, 1, room}, ", ");
}
