/* A strict JSON parser that builds a tree and checks numbers and UTF-8. */
#ifndef FF_JSON_H
#define FF_JSON_H

#include <stddef.h>
#include <stdint.h>

typedef enum ff_json_kind {
    FF_JSON_NULL,
    FF_JSON_FALSE,
    FF_JSON_TRUE,
    FF_JSON_INTEGER,
    FF_JSON_REAL,
    FF_JSON_TEXT,
    FF_JSON_LIST,
    FF_JSON_OBJECT
} ff_json_kind;

/* A JSON value. Members of a list are linked by `next`; in an object keys and values alternate. */
typedef struct ff_json {
    ff_json_kind kind;
    uint32_t next, first; /* indices of nodes in the document; 0 means none */
    size_t count;         /* bytes of a string, or members of a list or an object */
    union {
        int64_t integer;
        double real;
        const char *text; /* terminated by the only zero byte it contains */
    } value;
} ff_json;

typedef struct ff_json_document {
    ff_json *nodes; /* the first node is the root value */
    uint32_t count, capacity;
    char *texts;
} ff_json_document;

/* Parses a text; returns 0 if it is not valid JSON or memory runs out. */
int ff_json_read(ff_json_document *document, const uint8_t *text, size_t size);
void ff_json_free(ff_json_document *document);

/* Accessors accept NULL, and return NULL or 0 if a value is missing or of another kind. */
const ff_json *ff_json_first(const ff_json_document *document, const ff_json *list);
const ff_json *ff_json_next(const ff_json_document *document, const ff_json *item);
const ff_json *ff_json_get(const ff_json_document *document, const ff_json *object,
                           const char *name);
const char *ff_json_text(const ff_json *value);
int ff_json_integer(const ff_json *value, int64_t low, int64_t high,
                    int64_t *result); /* low..high */
int ff_json_real(const ff_json *value, double *result);

/* Append text, plain or as a quoted JSON string, at offset `used` of a buffer, if it fits. Both
 * return the offset behind the text, also if it does not fit. */
size_t ff_json_put(char *buffer, size_t size, size_t used, const char *text);
size_t ff_json_quote(char *buffer, size_t size, size_t used, const char *text);

#endif
