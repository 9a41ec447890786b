/* A plan as plain data, parsed from its sections and validated. */
#ifndef FF_PLAN_H
#define FF_PLAN_H

#include "container.h"
#include "json.h"

enum { FF_MAX_AXES = 16, FF_BUFFER_ALIGNMENT = 64 };

typedef enum ff_buffer_kind {
    FF_ARENA,
    FF_CONSTANTS,
    FF_INPUT,
    FF_OUTPUT,
    FF_VARIABLE,
    FF_STATE,
    FF_HOST,
    FF_HOST_PROTOCOL
} ff_buffer_kind;

typedef struct ff_buffer {
    ff_buffer_kind kind;
    uint64_t bytes;     /* size of the contents */
    uint64_t allocated; /* size on the device */
    int64_t start;      /* offset of its initial bytes in the constants; -1 if it has none */
} ff_buffer;

typedef struct ff_argument {
    int is_buffer;
    int32_t number;  /* the value to pass, or the index of the buffer */
    uint64_t offset; /* in elements */
    uint64_t texels; /* width of an image of the buffer; 0 if it is passed as a pointer */
    uint32_t texel;  /* bytes per texel */
} ff_argument;

typedef struct ff_plan_launch {
    const char *entry, *title, *node;
    const ff_argument *arguments;
    size_t argument_count, grid[3], local[3];
    uint32_t axes, stages;
} ff_plan_launch;

typedef struct ff_port {
    ff_tensor tensor;
    uint32_t buffer;
    int is_limited; /* 1 if the numbers of an integer input must be within `low` and `high` */
    int64_t low, high;
    uint64_t shape[FF_MAX_AXES];
} ff_port;

typedef struct ff_plan {
    const char *options, *precision;
    ff_section text, constants;
    ff_buffer *buffers;
    ff_plan_launch *launches;
    ff_port *inputs, *outputs;
    size_t buffer_count, launch_count, input_count, output_count;
    /* Storage that the fields above point into. */
    ff_json_document record;
    ff_argument *arguments;
    double *scales;
    int64_t *zero_points;
    void *expanded; /* memory of the constants, if they were expanded */
    size_t arguments_used, scales_used, zero_points_used;
} ff_plan;

/* Reads a plan from the sections that a row of the index numbers. */
ff_status ff_plan_read(ff_plan *plan, ff_container *file, const ff_json_document *index,
                       const ff_json *row, ff_error *error);
void ff_plan_free(ff_plan *plan);

#endif
