/* A plan as plain data, read from its sections and checked. */
#ifndef FF_PLAN_H
#define FF_PLAN_H

#include "container.h"
#include "json.h"

enum { FF_MOST_AXES = 16, FF_BUFFER_ALIGNMENT = 64 };

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
    uint64_t bytes;     /* that it holds */
    uint64_t allocated; /* that a device sets aside */
    int64_t start;      /* where its first bytes are in the constants; -1 where it has none */
} ff_buffer;

typedef struct ff_argument {
    int is_buffer;
    int32_t number;  /* to pass, or of the buffer */
    uint64_t offset; /* in elements */
    uint64_t texels; /* of an image of it; 0 where it is no image */
    uint32_t texel;  /* bytes of one */
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
    uint64_t shape[FF_MOST_AXES];
} ff_port;

typedef struct ff_plan {
    const char *options, *precision;
    ff_section text, constants;
    ff_buffer *buffers;
    ff_plan_launch *launches;
    ff_port *inputs, *outputs;
    size_t buffer_count, launch_count, input_count, output_count;
    /* What all of that points into. */
    ff_json_document record;
    ff_argument *arguments;
    double *scales;
    int64_t *zero_points;
    size_t arguments_used, scales_used, zero_points_used;
} ff_plan;

/* The plan in the sections of a file whose numbers are a list in JSON. */
ff_status ff_plan_read(ff_plan *plan, ff_container *file, const ff_json_document *index,
                       const ff_json *sections, ff_error *error);
void ff_plan_free(ff_plan *plan);

#endif
