/* A strict reader of JSON: the whole text as a tree, numbers and UTF-8 checked. */
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

/* A value. Those in a list follow each other by `next`; in an object keys and values in turn. */
typedef struct ff_json {
    ff_json_kind kind;
    uint32_t next, first; /* numbers of nodes in the document; 0 is none */
    size_t count;         /* bytes of a text, members of a list or an object */
    union {
        int64_t integer;
        double real;
        const char *text; /* ends with a zero, and has no other */
    } value;
} ff_json;

typedef struct ff_json_document {
    ff_json *nodes; /* the first one is the whole text */
    uint32_t count, room;
    char *texts;
} ff_json_document;

/* Reads a text; 0 where it is none, or where memory is short. */
int ff_json_read(ff_json_document *document, const uint8_t *text, size_t size);
void ff_json_free(ff_json_document *document);

/* All of these take NULL, and give NULL or 0 where a value is not there or is of another kind. */
const ff_json *ff_json_first(const ff_json_document *document, const ff_json *list);
const ff_json *ff_json_next(const ff_json_document *document, const ff_json *item);
const ff_json *ff_json_get(const ff_json_document *document, const ff_json *object,
                           const char *name);
const char *ff_json_text(const ff_json *value);
int ff_json_whole(const ff_json *value, int64_t low, int64_t high, int64_t *found); /* low..high */
int ff_json_real(const ff_json *value, double *found);

/* Writing: these put text behind what is `used` of a room, as far as it goes, and give how much of
 * it would be used. */
size_t ff_json_put(char *room, size_t size, size_t used, const char *text);
size_t ff_json_quote(char *room, size_t size, size_t used, const char *text);

#endif
