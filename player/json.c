/* A strict JSON parser: one pass, with a limit on nesting. */
#include "json.h"

#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 32, MAX_NUMBER_BYTES = 64 };

typedef struct reader {
    ff_json_document *document;
    const uint8_t *at, *end;
    char *texts; /* where the next string goes; none is longer than its quoted form */
} reader;

static uint32_t read_value(reader *in, int depth);

static void skip_whitespace(reader *in) {
    while (in->at < in->end && strchr(" \t\r\n", *in->at) != NULL && *in->at != 0) in->at++;
}

static int accept(reader *in, char code) {
    skip_whitespace(in);
    if (in->at == in->end || *in->at != (uint8_t)code) return 0;
    in->at++;
    return 1;
}

/* Returns the index of a new node; 0, the index of the root, if memory runs out. */
static uint32_t add_node(ff_json_document *document, ff_json_kind kind) {
    if (document->count == document->capacity) {
        uint32_t capacity = document->capacity * 2;
        ff_json *nodes =
            capacity > UINT32_MAX / 4 ? NULL : realloc(document->nodes, capacity * sizeof *nodes);
        if (nodes == NULL) return 0;
        document->nodes = nodes;
        document->capacity = capacity;
    }
    memset(&document->nodes[document->count], 0, sizeof *document->nodes);
    document->nodes[document->count].kind = kind;
    return document->count++;
}

static int read_hex(reader *in, uint32_t *code) {
    *code = 0;
    if (in->end - in->at < 4) return 0;
    for (int i = 0; i < 4; i++) {
        static const char digits[] = "0123456789abcdefABCDEF";
        const char *digit = *in->at == 0 ? NULL : strchr(digits, *in->at++);
        if (digit == NULL) return 0;
        *code = *code << 4 | (uint32_t)(digit - digits < 16 ? digit - digits : digit - digits - 6);
    }
    return 1;
}

static char *put_utf8(char *to, uint32_t code) {
    int more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static const uint8_t first[] = {0, 0xC0, 0xE0, 0xF0};
    *to++ = (char)(first[more] | code >> 6 * more);
    while (more-- > 0) *to++ = (char)(0x80 | (code >> 6 * more & 63));
    return to;
}

/* Reads \u0041, or a surrogate pair of two such escapes. */
static char *read_code(reader *in, char *to) {
    uint32_t code, low;
    if (!read_hex(in, &code) || code == 0 || (code & 0xFC00) == 0xDC00) return NULL;
    if ((code & 0xFC00) == 0xD800) {
        if (in->end - in->at < 6 || in->at[0] != '\\' || in->at[1] != 'u') return NULL;
        in->at += 2;
        if (!read_hex(in, &low) || (low & 0xFC00) != 0xDC00) return NULL;
        code = 0x10000 + ((code & 0x3FF) << 10 | (low & 0x3FF));
    }
    return put_utf8(to, code);
}

static char *read_escape(reader *in, char *to) {
    static const char names[] = "\"\\/bfnrt", codes[] = "\"\\/\b\f\n\r\t";
    const char *escape;
    if (in->at == in->end) return NULL;
    if (*in->at == 'u') {
        in->at++;
        return read_code(in, to);
    }
    escape = *in->at == 0 ? NULL : strchr(names, *in->at);
    if (escape == NULL) return NULL;
    in->at++;
    *to++ = codes[escape - names];
    return to;
}

/* Copies a code point beyond ASCII; rejects overlong forms and surrogates. */
static char *copy_utf8(reader *in, char *to) {
    uint8_t first = *in->at;
    size_t more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : 1;
    static const uint32_t min_code[] = {0, 0x80, 0x800, 0x10000};
    uint32_t code = first & (0x3F >> more);
    if (first < 0xC2 || first > 0xF4 || (size_t)(in->end - in->at) <= more) return NULL;
    for (size_t i = 1; i <= more; i++) {
        if ((in->at[i] & 0xC0) != 0x80) return NULL;
        code = code << 6 | (in->at[i] & 0x3F);
    }
    if (code < min_code[more] || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return NULL;
    memcpy(to, in->at, more + 1);
    in->at += more + 1;
    return to + more + 1;
}

static uint32_t read_text(reader *in) {
    char *start = in->texts, *to = start;
    uint32_t node;
    if (!accept(in, '"')) return 0;
    while (to != NULL && in->at < in->end && *in->at != '"') {
        if (*in->at < 0x20) return 0;
        if (*in->at == '\\') {
            in->at++;
            to = read_escape(in, to);
        } else if (*in->at < 0x80) {
            *to++ = (char)*in->at++;
        } else {
            to = copy_utf8(in, to);
        }
    }
    if (to == NULL || in->at == in->end) return 0;
    in->at++;
    node = add_node(in->document, FF_JSON_TEXT);
    if (node == 0) return 0;
    in->document->nodes[node].value.text = start;
    in->document->nodes[node].count = (size_t)(to - start);
    *to++ = 0;
    in->texts = to;
    return node;
}

static size_t digits(const char *text) {
    return strspn(text, "0123456789");
}

/* Returns whether a text is a JSON number; `real` is set if it has a fraction or an exponent. */
static int is_number(const char *text, int *real) {
    size_t integer_digits;
    *real = 0;
    text += *text == '-';
    integer_digits = digits(text);
    if (integer_digits == 0 || (integer_digits > 1 && *text == '0')) return 0;
    text += integer_digits;
    if (*text == '.') {
        *real = 1;
        if (digits(++text) == 0) return 0;
        text += digits(text);
    }
    if (*text == 'e' || *text == 'E') {
        *real = 1;
        text++;
        text += *text == '+' || *text == '-';
        if (digits(text) == 0) return 0;
        text += digits(text);
    }
    return *text == 0;
}

/* strtod expects the decimal point of the current locale. */
static double to_real(char *text) {
    char *point = strchr(text, '.');
    if (point != NULL) *point = localeconv()->decimal_point[0];
    return strtod(text, NULL);
}

static uint32_t read_number(reader *in) {
    char text[MAX_NUMBER_BYTES];
    size_t size = 0;
    int64_t integer = 0;
    double value = 0;
    int real;
    uint32_t node;
    while (in->at < in->end && *in->at != 0 && strchr("+-.0123456789eE", *in->at) != NULL) {
        if (size == sizeof text - 1) return 0;
        text[size++] = (char)*in->at++;
    }
    text[size] = 0;
    if (!is_number(text, &real)) return 0;
    if (real) value = to_real(text);
    errno = 0;
    if (!real) integer = strtoll(text, NULL, 10);
    if (errno == ERANGE || value - value != 0) return 0;
    node = add_node(in->document, real ? FF_JSON_REAL : FF_JSON_INTEGER);
    if (node == 0) return 0;
    if (real) in->document->nodes[node].value.real = value;
    else in->document->nodes[node].value.integer = integer;
    return node;
}

static uint32_t read_word(reader *in) {
    static const struct {
        const char *text;
        ff_json_kind kind;
    } words[] = {{"null", FF_JSON_NULL}, {"false", FF_JSON_FALSE}, {"true", FF_JSON_TRUE}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t size = strlen(words[i].text);
        if ((size_t)(in->end - in->at) >= size && memcmp(in->at, words[i].text, size) == 0) {
            in->at += size;
            return add_node(in->document, words[i].kind);
        }
    }
    return 0;
}

/* Reads the members of a list or an object after its opening bracket. */
static uint32_t read_members(reader *in, uint32_t node, int depth) {
    int object = in->document->nodes[node].kind == FF_JSON_OBJECT;
    char close = object ? '}' : ']';
    uint32_t last = 0;
    if (accept(in, close)) return node;
    do {
        uint32_t key = 0, value;
        if (object && ((key = read_text(in)) == 0 || !accept(in, ':'))) return 0;
        value = read_value(in, depth - 1);
        if (value == 0) return 0;
        if (object) in->document->nodes[key].next = value;
        if (last == 0) in->document->nodes[node].first = object ? key : value;
        else in->document->nodes[last].next = object ? key : value;
        last = value;
        in->document->nodes[node].count++;
    } while (accept(in, ','));
    return accept(in, close) ? node : 0;
}

static uint32_t read_value(reader *in, int depth) {
    skip_whitespace(in);
    if (in->at == in->end || depth == 0) return 0;
    if (*in->at == '"') return read_text(in);
    if (*in->at == '{' || *in->at == '[') {
        uint32_t node = add_node(in->document, *in->at == '{' ? FF_JSON_OBJECT : FF_JSON_LIST);
        in->at++;
        return node == 0 ? 0 : read_members(in, node, depth);
    }
    return *in->at == '-' || (*in->at >= '0' && *in->at <= '9') ? read_number(in) : read_word(in);
}

int ff_json_read(ff_json_document *document, const uint8_t *text, size_t size) {
    reader in = {document, text, text + size, NULL};
    uint32_t top;
    memset(document, 0, sizeof *document);
    if (size == 0 || size > UINT32_MAX / 2) return 0;
    document->capacity = 256;
    document->nodes = calloc(document->capacity, sizeof *document->nodes);
    document->texts = malloc(size);
    in.texts = document->texts;
    document->count = 1; /* node 0 is the root, which is filled in at the end */
    if (document->nodes != NULL && document->texts != NULL) {
        top = read_value(&in, MAX_DEPTH);
        skip_whitespace(&in);
        if (top != 0 && in.at == in.end) {
            document->nodes[0] = document->nodes[top];
            return 1;
        }
    }
    ff_json_free(document);
    return 0;
}

void ff_json_free(ff_json_document *document) {
    free(document->nodes);
    free(document->texts);
    memset(document, 0, sizeof *document);
}

const ff_json *ff_json_first(const ff_json_document *document, const ff_json *list) {
    if (list == NULL || list->kind < FF_JSON_LIST || list->first == 0) return NULL;
    return &document->nodes[list->first];
}

const ff_json *ff_json_next(const ff_json_document *document, const ff_json *item) {
    return item == NULL || item->next == 0 ? NULL : &document->nodes[item->next];
}

const ff_json *ff_json_get(const ff_json_document *document, const ff_json *object,
                           const char *name) {
    const ff_json *key, *value, *member = NULL;
    if (object == NULL || object->kind != FF_JSON_OBJECT) return NULL;
    for (key = ff_json_first(document, object); key != NULL; key = ff_json_next(document, value)) {
        value = ff_json_next(document, key);
        if (strcmp(key->value.text, name) == 0) member = value; /* the last of equal keys wins */
    }
    return member;
}

const char *ff_json_text(const ff_json *value) {
    return value != NULL && value->kind == FF_JSON_TEXT ? value->value.text : NULL;
}

int ff_json_integer(const ff_json *value, int64_t low, int64_t high, int64_t *result) {
    if (value == NULL || value->kind != FF_JSON_INTEGER) return 0;
    *result = value->value.integer;
    return *result >= low && *result <= high;
}

int ff_json_real(const ff_json *value, double *result) {
    if (value == NULL || (value->kind != FF_JSON_REAL && value->kind != FF_JSON_INTEGER)) return 0;
    *result = value->kind == FF_JSON_REAL ? value->value.real : (double)value->value.integer;
    return 1;
}

size_t ff_json_put(char *buffer, size_t size, size_t used, const char *text) {
    size_t more = strlen(text);
    if (used + more < size) memcpy(buffer + used, text, more + 1);
    return used + more;
}

size_t ff_json_quote(char *buffer, size_t size, size_t used, const char *text) {
    used = ff_json_put(buffer, size, used, "\"");
    for (; *text != 0; text++) {
        char escaped[8] = {*text, 0};
        if (*text == '"' || *text == '\\') snprintf(escaped, sizeof escaped, "\\%c", *text);
        else if ((uint8_t)*text < 0x20)
            snprintf(escaped, sizeof escaped, "\\u%04x", (unsigned)*text);
        used = ff_json_put(buffer, size, used, escaped);
    }
    return ff_json_put(buffer, size, used, "\"");
}
