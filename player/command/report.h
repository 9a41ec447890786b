/* Output of fourfold-run: lines of JSON, each written at once. */
#ifndef FF_REPORT_H
#define FF_REPORT_H

#include <stddef.h>

#include "../fourfold.h"

typedef struct ff_line {
    char *text;
    size_t used, capacity;
} ff_line;

/* Appends text formatted as by printf. The line stays unchanged if memory runs out. */
void ff_add(ff_line *line, const char *format, ...);
void ff_add_text(ff_line *line, const char *name, const char *text); /* "name": "text" */
void ff_add_tensor(ff_line *line, const ff_tensor *tensor);          /* without the closing brace */
void ff_add_device(ff_line *line, const ff_device *device);
/* Writes the line to standard output, and clears it. */
void ff_print_line(ff_line *line);
void ff_print_error(const char *model, size_t number, const ff_error *error, int json);

#endif
