#include "kernels/cpu/transpose.h"

#include <string.h>

#include "kernels/cpu/lanes.h"

/* LANES x LANES: every round interleaves row r with row r + LANES / 2, which rotates the bits of
 * row and column by one. */
static void transpose_block(float *to, int to_pitch, const float *from, int from_pitch) {
    vector row[LANES], mixed[LANES];
    integers low, high;
    for (int i = 0; i < LANES; i++) {
        low[i] = i / 2 + i % 2 * LANES;
        high[i] = low[i] + LANES / 2;
    }
    for (int r = 0; r < LANES; r++) row[r] = vector_load(from + r * from_pitch);
    for (int round = 1; round < LANES; round *= 2) {
        for (int r = 0; r < LANES / 2; r++) {
            mixed[2 * r] = __builtin_shuffle(row[r], row[r + LANES / 2], low);
            mixed[2 * r + 1] = __builtin_shuffle(row[r], row[r + LANES / 2], high);
        }
        memcpy(row, mixed, sizeof row);
    }
    for (int r = 0; r < LANES; r++) vector_store(to + r * to_pitch, row[r]);
}

static void transpose_rest(float *to, int to_pitch, const float *from, int from_pitch, int rows,
                           int columns) {
    for (int c = 0; c < columns; c++)
        for (int r = 0; r < rows; r++) to[c * to_pitch + r] = from[r * from_pitch + c];
}

void transpose(float *to, int to_pitch, const float *from, int from_pitch, int rows, int columns) {
    int r = 0, whole = columns / LANES * LANES;
    for (; r + LANES <= rows; r += LANES) {
        for (int c = 0; c < whole; c += LANES)
            transpose_block(to + c * to_pitch + r, to_pitch, from + r * from_pitch + c, from_pitch);
        transpose_rest(to + whole * to_pitch + r, to_pitch, from + r * from_pitch + whole,
                       from_pitch, LANES, columns - whole);
    }
    transpose_rest(to + r, to_pitch, from + r * from_pitch, from_pitch, rows - r, columns);
}
