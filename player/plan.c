/* Parses the record of a plan, and rejects it if any number is out of bounds. */
#include "plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "expand.h"

static const int64_t MAX_BYTES = INT64_C(1) << 48, MAX_GRID_SIZE = INT64_C(1) << 40;
enum { MIN_PROTOCOL_BYTES = 192 };

static const struct {
    char name[7];
    uint8_t size;
} TYPES[] = {{"f16[", 2}, {"f32[", 4},  {"f64[", 8}, {"i8[", 1},   {"i16[", 2},
             {"i32[", 4}, {"i64[", 8},  {"u8[", 1},  {"u16[", 2},  {"u32[", 4},
             {"u64[", 8}, {"bool[", 1}, {"c64[", 8}, {"c128[", 16}};

static const char *const KINDS[] = {"arena",    "constants", "input", "output",
                                    "variable", "state",     "host",  "host_protocol"};

/* Iterates over the members of a list. */
typedef struct cursor {
    const ff_json_document *document;
    const ff_json *at;
} cursor;

static cursor members(const ff_json_document *document, const ff_json *list) {
    cursor items = {document, ff_json_first(document, list)};
    return items;
}

static const ff_json *next(cursor *items) {
    const ff_json *item = items->at;
    items->at = ff_json_next(items->document, item);
    return item;
}

static int is_list(const ff_json *value, size_t min_count, size_t max_count) {
    return value != NULL && value->kind == FF_JSON_LIST && value->count >= min_count &&
           value->count <= max_count;
}

/* Parses a type such as "f32[1,224,224,3]" of at most MAX_BYTES. */
static int read_type(const char *text, ff_tensor *found, uint64_t *shape) {
    size_t type = 0, count = sizeof TYPES / sizeof *TYPES;
    uint64_t bytes;
    int empty = 0;
    while (type < count && strncmp(text, TYPES[type].name, strlen(TYPES[type].name)) != 0) type++;
    if (type == count) return 0;
    found->text = text;
    text += strlen(TYPES[type].name);
    found->type = (ff_type)type;
    found->rank = 0;
    found->element_bytes = TYPES[type].size;
    bytes = TYPES[type].size;
    while (*text != ']') {
        uint64_t size = 0;
        size_t digits = strspn(text, "0123456789");
        if (digits == 0 || digits > 13 || found->rank == FF_MAX_AXES) return 0;
        for (; digits > 0; digits--) size = size * 10 + (uint64_t)(*text++ - '0');
        if (size > (uint64_t)MAX_BYTES / bytes) return 0;
        empty = empty || size == 0;
        bytes *= size ? size : 1;
        shape[found->rank++] = size;
        if (*text == ',' && text[1] != ']') text++;
        else if (*text != ']') return 0;
    }
    found->bytes = empty ? 0 : (size_t)bytes;
    found->shape = shape;
    return text[1] == 0 && (uint64_t)found->bytes == (empty ? 0 : bytes);
}

static int read_buffer(const ff_plan *plan, const ff_json *item, ff_buffer *buffer) {
    cursor parts = members(&plan->record, item);
    const char *kind;
    size_t number = 0, count = sizeof KINDS / sizeof *KINDS;
    int64_t bytes, most;
    if (!is_list(item, 3, 4) || ff_json_text(next(&parts)) == NULL) return 0;
    kind = ff_json_text(next(&parts));
    while (kind != NULL && number < count && strcmp(kind, KINDS[number]) != 0) number++;
    if (kind == NULL || number == count) return 0;
    if (!ff_json_integer(next(&parts), 0, MAX_BYTES - 1, &bytes)) return 0;
    buffer->kind = (ff_buffer_kind)number;
    buffer->bytes = buffer->allocated = (uint64_t)bytes;
    buffer->start = -1;
    if (item->count == 4) {
        most = (int64_t)plan->constants.size - bytes;
        if (!ff_json_integer(next(&parts), 0, most, &buffer->start)) return 0;
    }
    if (buffer->kind == FF_HOST_PROTOCOL && bytes < MIN_PROTOCOL_BYTES) return 0;
    if (buffer->kind != FF_CONSTANTS && buffer->kind != FF_VARIABLE && buffer->kind != FF_STATE) {
        uint64_t steps = ((uint64_t)bytes + FF_BUFFER_ALIGNMENT - 1) / FF_BUFFER_ALIGNMENT;
        buffer->allocated = (steps ? steps : 1) * FF_BUFFER_ALIGNMENT;
    }
    return 1;
}

static int read_buffers(ff_plan *plan, const ff_json *list) {
    cursor items = members(&plan->record, list);
    uint64_t constants = 0;
    if (!is_list(list, 0, SIZE_MAX)) return 0;
    plan->buffers = calloc(list->count + 1, sizeof *plan->buffers);
    if (plan->buffers == NULL) return 0;
    for (plan->buffer_count = 0; plan->buffer_count < list->count; plan->buffer_count++) {
        ff_buffer *buffer = &plan->buffers[plan->buffer_count];
        if (!read_buffer(plan, next(&items), buffer)) return 0;
        if (buffer->kind != FF_CONSTANTS) continue;
        constants += buffer->bytes;
        if (constants > plan->constants.size) return 0;
    }
    return constants == plan->constants.size;
}

/* Parses an image of constants: a matrix with four columns. */
static int read_image(const ff_plan *plan, const ff_json *item, ff_argument *argument) {
    const ff_buffer *buffer = &plan->buffers[argument->number];
    ff_tensor type = {0};
    uint64_t shape[FF_MAX_AXES], first;
    const char *text = ff_json_text(item);
    if (text == NULL || !read_type(text, &type, shape) || type.type > FF_F32) return 0;
    if (type.rank != 2 || shape[1] != 4 || shape[0] == 0 || argument->offset % 4) return 0;
    first = argument->offset * type.element_bytes;
    if (buffer->kind != FF_CONSTANTS || first + type.bytes > buffer->bytes) return 0;
    argument->texels = shape[0];
    argument->texel = 4 * (uint32_t)type.element_bytes;
    return 1;
}

static int read_argument(const ff_plan *plan, const ff_json *item, ff_argument *argument) {
    cursor parts = members(&plan->record, item);
    int64_t number, offset, most;
    if (item->kind != FF_JSON_LIST) {
        if (!ff_json_integer(item, INT32_MIN, INT32_MAX, &number)) return 0;
        argument->number = (int32_t)number;
        return 1;
    }
    if (!is_list(item, 2, 3)) return 0;
    if (!ff_json_integer(next(&parts), 0, (int64_t)plan->buffer_count - 1, &number)) return 0;
    most = (int64_t)plan->buffers[number].bytes;
    if (!ff_json_integer(next(&parts), 0, most ? most - 1 : 0, &offset)) return 0;
    argument->is_buffer = 1;
    argument->number = (int32_t)number;
    argument->offset = (uint64_t)offset;
    return item->count == 2 || read_image(plan, next(&parts), argument);
}

static int read_sizes(const ff_plan *plan, const ff_json *list, size_t sizes[3], uint32_t *axes) {
    cursor items = members(&plan->record, list);
    int64_t size;
    if (!is_list(list, 1, 3)) return 0;
    for (*axes = 0; *axes < list->count; ++*axes) {
        if (!ff_json_integer(next(&items), 1, MAX_GRID_SIZE - 1, &size)) return 0;
        sizes[*axes] = (size_t)size;
        if ((int64_t)sizes[*axes] != size) return 0;
    }
    return 1;
}

static int read_launch(ff_plan *plan, const ff_json *item, ff_plan_launch *launch) {
    cursor parts = members(&plan->record, item), arguments;
    const ff_json *list;
    uint32_t axes;
    int64_t stages;
    if (!is_list(item, 7, 7)) return 0;
    launch->entry = ff_json_text(next(&parts));
    list = next(&parts);
    if (launch->entry == NULL || !is_list(list, 0, UINT16_MAX)) return 0;
    arguments = members(&plan->record, list);
    launch->arguments = plan->arguments + plan->arguments_used;
    launch->argument_count = list->count;
    for (size_t i = 0; i < list->count; i++) {
        if (!read_argument(plan, next(&arguments), &plan->arguments[plan->arguments_used++]))
            return 0;
    }
    if (!read_sizes(plan, next(&parts), launch->grid, &launch->axes)) return 0;
    if (!read_sizes(plan, next(&parts), launch->local, &axes) || axes != launch->axes) return 0;
    for (uint32_t i = 0; i < axes; i++) {
        if (launch->grid[i] % launch->local[i]) return 0;
    }
    launch->title = ff_json_text(next(&parts));
    launch->node = ff_json_text(next(&parts));
    if (!ff_json_integer(next(&parts), 1, INT32_MAX, &stages)) return 0;
    launch->stages = (uint32_t)stages;
    return launch->title != NULL && launch->node != NULL;
}

static int read_quantization(ff_plan *plan, const ff_json *item, ff_tensor *tensor) {
    cursor parts = members(&plan->record, item), items;
    const ff_json *scales, *zeros, *axis;
    int64_t whole = -1;
    if (!is_list(item, 3, 3)) return 0;
    scales = next(&parts);
    zeros = next(&parts);
    axis = next(&parts);
    if (!is_list(scales, 0, SIZE_MAX) || !is_list(zeros, 0, SIZE_MAX)) return 0;
    if (axis->kind != FF_JSON_NULL && !ff_json_integer(axis, -64, 63, &whole)) return 0;
    if (axis->kind != FF_JSON_NULL && whole < 0) whole += (int64_t)tensor->rank;
    tensor->axis = (int)whole;
    tensor->scales = plan->scales + plan->scales_used;
    tensor->zero_points = plan->zero_points + plan->zero_points_used;
    items = members(&plan->record, scales);
    for (; tensor->scale_count < scales->count; tensor->scale_count++) {
        if (!ff_json_real(next(&items), &plan->scales[plan->scales_used++])) return 0;
    }
    items = members(&plan->record, zeros);
    for (; tensor->zero_point_count < zeros->count; tensor->zero_point_count++) {
        int64_t *zero_point = &plan->zero_points[plan->zero_points_used++];
        if (!ff_json_integer(next(&items), INT64_MIN, INT64_MAX, zero_point)) return 0;
    }
    return 1;
}

/* Reads the smallest and the largest valid number of an integer input. */
static int read_limits(ff_plan *plan, const ff_json *item, ff_port *port) {
    cursor parts = members(&plan->record, item);
    ff_type type = port->tensor.type;
    port->is_limited = 1;
    return (type == FF_I32 || type == FF_I64) && is_list(item, 2, 2) &&
           ff_json_integer(next(&parts), INT32_MIN, INT32_MAX, &port->low) &&
           ff_json_integer(next(&parts), INT32_MIN, INT32_MAX, &port->high);
}

static int read_port(ff_plan *plan, const ff_json *item, const ff_json *name, ff_port *port) {
    cursor parts = members(&plan->record, item);
    const ff_json *pixels = ff_json_get(&plan->record, plan->record.nodes, "pixels");
    ff_tensor *tensor = &port->tensor;
    const char *type;
    const ff_json *quantization;
    int64_t number;
    tensor->axis = -1;
    tensor->name = ff_json_text(name);
    if (!is_list(item, 4, 5) || tensor->name == NULL || !ff_json_text(next(&parts))) return 0;
    type = ff_json_text(next(&parts));
    if (type == NULL || !read_type(type, tensor, port->shape)) return 0;
    if (!ff_json_integer(next(&parts), 0, (int64_t)plan->buffer_count - 1, &number)) return 0;
    if (plan->buffers[number].bytes < tensor->bytes) return 0;
    port->buffer = (uint32_t)number;
    tensor->pixels = ff_json_text(ff_json_get(&plan->record, pixels, tensor->name));
    if (tensor->pixels == NULL) tensor->pixels = "";
    quantization = next(&parts);
    if (quantization->kind != FF_JSON_NULL && !read_quantization(plan, quantization, tensor)) return 0;
    return item->count == 4 || read_limits(plan, next(&parts), port);
}

static int read_ports(ff_plan *plan, const char *what, const char *names, ff_port **ports,
                      size_t *count) {
    const ff_json *list = ff_json_get(&plan->record, plan->record.nodes, what);
    const ff_json *name_list = ff_json_get(&plan->record, plan->record.nodes, names);
    cursor items = members(&plan->record, list), texts = members(&plan->record, name_list);
    if (!is_list(list, 0, SIZE_MAX) || !is_list(name_list, list->count, list->count)) return 0;
    *ports = calloc(list->count + 1, sizeof **ports);
    if (*ports == NULL) return 0;
    for (*count = 0; *count < list->count; ++*count) {
        if (!read_port(plan, next(&items), next(&texts), &(*ports)[*count])) return 0;
    }
    return 1;
}

static int read_record(ff_plan *plan) {
    const ff_json_document *record = &plan->record;
    const ff_json *list = ff_json_get(record, record->nodes, "launches");
    cursor items = members(record, list);
    plan->options = ff_json_text(ff_json_get(record, record->nodes, "options"));
    plan->precision = ff_json_text(ff_json_get(record, record->nodes, "precision"));
    plan->arguments = calloc(record->count, sizeof *plan->arguments);
    plan->scales = calloc(record->count, sizeof *plan->scales);
    plan->zero_points = calloc(record->count, sizeof *plan->zero_points);
    if (plan->options == NULL || plan->precision == NULL || plan->arguments == NULL ||
        plan->scales == NULL || plan->zero_points == NULL || !is_list(list, 0, SIZE_MAX) ||
        !read_buffers(plan, ff_json_get(record, record->nodes, "buffers"))) {
        return 0;
    }
    plan->launches = calloc(list->count + 1, sizeof *plan->launches);
    if (plan->launches == NULL) return 0;
    for (; plan->launch_count < list->count; plan->launch_count++) {
        if (!read_launch(plan, next(&items), &plan->launches[plan->launch_count])) return 0;
    }
    return read_ports(plan, "inputs", "input_names", &plan->inputs, &plan->input_count) &&
           read_ports(plan, "outputs", "output_names", &plan->outputs, &plan->output_count);
}

static ff_status fail_invalid(ff_error *error) {
    return ff_fail(error, FF_FILE,
                   "the file is damaged: the record of a plan is invalid; prepare the model again");
}

ff_status ff_plan_read(ff_plan *plan, ff_container *file, const ff_json_document *index,
                       const ff_json *row, ff_error *error) {
    static const char *const names[] = {"model", "plan", "text", "constants"};
    ff_section model = {NULL, 0}, record = {NULL, 0};
    ff_section *found[] = {&model, &record, &plan->text, &plan->constants};
    cursor numbers = members(index, ff_json_get(index, row, "sections"));
    const ff_json *stored;
    ff_status status = FF_OK;
    int64_t number;
    memset(plan, 0, sizeof *plan);
    for (int i = 0; status == FF_OK && i < 4; i++) {
        if (!ff_json_integer(next(&numbers), 0, INT32_MAX, &number)) number = -1;
        status = ff_container_section(file, number, names[i], found[i], error);
    }
    if (status == FF_OK && !ff_json_read(&plan->record, record.bytes, record.size)) {
        status = fail_invalid(error);
    }
    if (status == FF_OK) {
        stored = ff_json_get(&plan->record, plan->record.nodes, "constants");
        if (stored != NULL) {
            status = ff_expand_constants(file, &plan->record, stored, index,
                                         ff_json_get(index, row, "weights"), plan->constants,
                                         &plan->constants, &plan->expanded, error);
        }
    }
    if (status == FF_OK && !read_record(plan)) status = fail_invalid(error);
    if (status != FF_OK) ff_plan_free(plan);
    return status;
}

void ff_plan_free(ff_plan *plan) {
    ff_json_free(&plan->record);
    free(plan->buffers);
    free(plan->launches);
    free(plan->inputs);
    free(plan->outputs);
    free(plan->arguments);
    free(plan->scales);
    free(plan->zero_points);
    free(plan->expanded);
    memset(plan, 0, sizeof *plan);
}
