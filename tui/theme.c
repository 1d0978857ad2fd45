#include "tui/theme.h"

#include <errno.h>
#include <ini.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/core/text.h"

#ifndef DATADIR
#define DATADIR "/usr/local/share/nantop"
#endif

/* The files themselves are the built-in themes: one source, one parser. */
#define THEME_BUILTIN(name)                                                   \
    extern const char theme_##name[];                                         \
    __asm__(".pushsection .rodata\ntheme_" #name ":\n.incbin \"themes/" #name \
            ".ini\"\n.byte 0\n.popsection")
THEME_BUILTIN(dark);
THEME_BUILTIN(light);
THEME_BUILTIN(mono);

static const struct {
    const char *name, *text;
} BUILTIN[] = {{"dark", theme_dark}, {"light", theme_light}, {"mono", theme_mono}};
enum { BUILTINS = sizeof BUILTIN / sizeof *BUILTIN, FILE_MAX = 1 << 16 };

static const char *const ROLES[] = {
#define X(upper, lower) lower,
    GRID_ROLES(X)
#undef X
};

static const struct {
    const char *word;
    unsigned attribute;
} ATTRIBUTES[] = {
    {"bold", THEME_BOLD},
    {"dim", THEME_DIM},
    {"underline", THEME_UNDERLINE},
    {"reverse", THEME_REVERSE},
};

static unsigned attribute_find(const char *word) {
    for (size_t i = 0; i < sizeof ATTRIBUTES / sizeof *ATTRIBUTES; i++)
        if (strcmp(ATTRIBUTES[i].word, word) == 0) return ATTRIBUTES[i].attribute;
    return 0;
}

static int color_parse(const char *word, int *color) {
    if (strcmp(word, "default") == 0) {
        *color = THEME_DEFAULT;
        return 0;
    }
    bool rgb = word[0] == '#';
    const char *digits = word + (rgb ? 1 : 0);
    char *end;
    if (strspn(digits, "0123456789abcdefABCDEF") != strlen(digits)) return -1;
    long value = strtol(digits, &end, rgb ? 16 : 10);
    if (*end != '\0' || end == digits) return -1;
    if (rgb ? strlen(digits) != 6 : value > 255) return -1;
    *color = rgb ? THEME_RGB | (int)value : (int)value;
    return 0;
}

/* "COLOUR [on COLOUR] [attribute]...". On failure the word at fault. */
static const char *style_parse(char *value, struct theme_style *style) {
    struct theme_style parsed = {THEME_DEFAULT, THEME_DEFAULT, 0};
    char *rest, *word = strtok_r(value, " \t", &rest);
    if (word == NULL || color_parse(word, &parsed.foreground) != 0) return word ? word : "";
    while ((word = strtok_r(NULL, " \t", &rest)) != NULL) {
        if (strcmp(word, "on") == 0) {
            word = strtok_r(NULL, " \t", &rest);
            if (word == NULL || color_parse(word, &parsed.background) != 0)
                return word ? word : "on";
        } else if (attribute_find(word) != 0) {
            parsed.attributes |= attribute_find(word);
        } else {
            return word;
        }
    }
    *style = parsed;
    return NULL;
}

struct parse {
    struct theme theme;
    char reason[160]; /* of the first failure */
};

static int parse_entry(void *user, const char *section, const char *name, const char *value) {
    struct parse *parse = user;
    char text[200];
    size_t role = 0;
    while (role < GRID_ROLE_COUNT && strcmp(ROLES[role], name) != 0) role++;
    const char *at_fault = NULL;
    if (strcmp(section, "roles") == 0 && role < GRID_ROLE_COUNT)
        at_fault = style_parse(text_copy(text, sizeof text, value), &parse->theme.style[role]);
    if (parse->reason[0] != '\0') return 0;
    if (strcmp(section, "roles") != 0)
        snprintf(parse->reason, sizeof parse->reason, "'%.40s' stands under no [roles]", name);
    else if (role == GRID_ROLE_COUNT)
        snprintf(parse->reason, sizeof parse->reason, "there is no role '%.40s'", name);
    else if (at_fault != NULL)
        snprintf(parse->reason, sizeof parse->reason, "'%.40s' is no colour or attribute",
                 at_fault);
    return parse->reason[0] == '\0';
}

int theme_parse(struct theme *theme, const char *name, const char *text, struct error *error) {
    struct parse parse = {0};
    for (int role = 0; role < GRID_ROLE_COUNT; role++)
        parse.theme.style[role] = (struct theme_style){THEME_DEFAULT, THEME_DEFAULT, 0};
    int line = ini_parse_string(text, parse_entry, &parse);
    if (line > 0)
        return error_set(error, "theme %s: line %d: %s", name, line,
                         parse.reason[0] ? parse.reason : "neither [section] nor role = look");
    if (line < 0) return error_set(error, "theme %s: out of memory", name);
    const char *base = strrchr(name, '/');
    text_copy(parse.theme.name, sizeof parse.theme.name, base ? base + 1 : name);
    char *suffix = strstr(parse.theme.name, ".ini");
    if (suffix != NULL) *suffix = '\0';
    *theme = parse.theme;
    return 0;
}

const char *theme_builtin_name(int n) { return n < BUILTINS ? BUILTIN[n].name : NULL; }

void theme_builtin(struct theme *theme, const char *name) {
    int found = 0;
    for (int i = 0; i < BUILTINS; i++)
        if (strcmp(BUILTIN[i].name, name) == 0) found = i;
    theme_parse(theme, BUILTIN[found].name, BUILTIN[found].text, NULL);
}

/* 1: there is no such file. */
static int load_file(struct theme *theme, const char *path, struct error *error) {
    FILE *file = fopen(path, "r");
    if (file == NULL && errno == ENOENT) return 1;
    if (file == NULL) return error_set(error, "theme %s: %s", path, strerror(errno));
    char *text = malloc(FILE_MAX);
    size_t size = text ? fread(text, 1, FILE_MAX - 1, file) : 0;
    int result = -1;
    if (text == NULL || ferror(file))
        error_set(error, "theme %s: cannot read it", path);
    else if (size == FILE_MAX - 1)
        error_set(error, "theme %s: larger than 64 KB", path);
    else if (memchr(text, 0, size) != NULL)
        error_set(error, "theme %s: not a text", path);
    else {
        text[size] = '\0';
        result = theme_parse(theme, path, text, error);
    }
    free(text);
    fclose(file);
    return result;
}

int theme_load(struct theme *theme, const char *name, struct error *error) {
    if (strchr(name, '/') != NULL) {
        int result = load_file(theme, name, error);
        return result > 0 ? error_set(error, "theme %s: there is no such file", name) : result;
    }
    const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    char path[4][512] = {"", "", "", ""};
    if (config && *config)
        snprintf(path[0], sizeof path[0], "%s/nantop/themes/%s.ini", config, name);
    else if (home)
        snprintf(path[0], sizeof path[0], "%s/.config/nantop/themes/%s.ini", home, name);
    snprintf(path[1], sizeof path[1], "%s/themes/%s.ini", DATADIR, name);
    snprintf(path[2], sizeof path[2], "themes/%s.ini", name);
    for (int i = 0; path[i][0] != '\0' || i == 0; i++) {
        int result = path[i][0] ? load_file(theme, path[i], error) : 1;
        if (result <= 0) return result;
    }
    for (int i = 0; i < BUILTINS; i++)
        if (strcmp(BUILTIN[i].name, name) == 0)
            return theme_parse(theme, name, BUILTIN[i].text, error);
    return error_set(error, "theme %s: neither in the theme folders nor built in", name);
}

/* What xterm and most others show for a palette entry. */
static int palette_rgb(int index) {
    static const int BASIC[16] = {0x000000, 0xcd0000, 0x00cd00, 0xcdcd00, 0x0000ee, 0xcd00cd,
                                  0x00cdcd, 0xe5e5e5, 0x7f7f7f, 0xff0000, 0x00ff00, 0xffff00,
                                  0x5c5cff, 0xff00ff, 0x00ffff, 0xffffff};
    static const int STEP[6] = {0, 95, 135, 175, 215, 255};
    if (index < 16) return BASIC[index];
    if (index >= 232) return (8 + 10 * (index - 232)) * 0x010101;
    index -= 16;
    return STEP[index / 36] << 16 | STEP[index / 6 % 6] << 8 | STEP[index % 6];
}

static int distance(int a, int b) {
    int red = (a >> 16 & 255) - (b >> 16 & 255), green = (a >> 8 & 255) - (b >> 8 & 255);
    int blue = (a & 255) - (b & 255);
    return 2 * red * red + 4 * green * green + 3 * blue * blue; /* green is seen best */
}

static bool is_middle_grey(int rgb) {
    int red = rgb >> 16 & 255, green = rgb >> 8 & 255, blue = rgb & 255;
    return abs(red - green) < 24 && abs(green - blue) < 24 && green > 0x20 && green < 0xe8;
}

int theme_nearest(int color, int colors) {
    if (color == THEME_DEFAULT || (color < THEME_RGB && color < colors)) return color;
    int rgb = color >= THEME_RGB ? color & 0xffffff : palette_rgb(color);
    if (colors == 8 && is_middle_grey(rgb)) return THEME_DEFAULT; /* black on black would be next */
    int first = colors > 16 ? 16 : 0;                             /* people repaint the first 16 */
    int best = first;
    for (int i = first; i < colors; i++)
        if (distance(palette_rgb(i), rgb) < distance(palette_rgb(best), rgb)) best = i;
    return best;
}
