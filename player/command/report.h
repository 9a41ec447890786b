/* Lines that fourfold-run tells: as JSON, each written whole and at once. */
#ifndef FF_REPORT_H
#define FF_REPORT_H

#include <stddef.h>

#include "../fourfold.h"

typedef struct ff_line {
    char *text;
    size_t used, room;
} ff_line;

/* Adds text as printf makes it. A line that memory is too short for stays as it was. */
void ff_add(ff_line *line, const char *format, ...);
void ff_add_text(ff_line *line, const char *name, const char *text); /* "name": "text" */
void ff_add_tensor(ff_line *line, const ff_tensor *tensor);          /* without a brace behind it */
void ff_add_device(ff_line *line, const ff_device *device);
/* Writes it to standard output, and begins a new one. */
void ff_tell(ff_line *line);
void ff_tell_error(const char *model, size_t number, const ff_error *error, int json);

#endif
