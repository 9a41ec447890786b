/* Constants that a file stores apart as weights, expanded when a plan is read. */
#ifndef FF_EXPAND_H
#define FF_EXPAND_H

#include "container.h"
#include "json.h"

enum { FF_CONSTANTS_ALIGNMENT = 4096 };

/* Expands the constants that a record describes as [size, [piece, ...]]. `remaining` are the bytes
 * outside the pieces, and `weights` is a list of section numbers in the document `index`. On
 * success, `constants` is inside `*memory`, which the caller frees. */
ff_status ff_expand_constants(ff_container *file, const ff_json_document *record,
                              const ff_json *description, const ff_json_document *index,
                              const ff_json *weights, ff_section remaining, ff_section *constants,
                              void **memory, ff_error *error);

#endif
