/* Expands weights into the block of constants that kernels read: types, scales and layouts. */
#include "expand.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_AXES = 4, MAX_DIMENSIONS = 8, MAX_EXPANSION = 1024 };

typedef enum element { F16, F32, I8, U8, OTHER } element;

static const struct {
    char name[5];
    uint8_t size;
    element kind;
} TYPES[] = {{"f16", 2, F16},   {"f32", 4, F32},   {"i8", 1, I8},     {"u8", 1, U8},
             {"f64", 8, OTHER}, {"i16", 2, OTHER}, {"i32", 4, OTHER}, {"i64", 8, OTHER},
             {"u16", 2, OTHER}, {"u32", 4, OTHER}, {"u64", 8, OTHER}, {"bool", 1, OTHER},
             {"c64", 8, OTHER}, {"c128", 16, OTHER}};
enum { TYPE_COUNT = sizeof TYPES / sizeof *TYPES };

/* A constant that is stored apart. Missing leading axes have size 1. */
typedef struct piece {
    uint64_t start, bytes, shape[MAX_AXES];
    size_t type, stored, elements;
    size_t *offsets[MAX_AXES]; /* where each index of an axis is, in elements */
    const uint8_t *weights;
    const uint8_t *scales; /* fp32 numbers, or NULL */
    float scale;
    int has_grid, has_scale, zero, axis; /* the axis of the scales, or -1 */
} piece;

typedef struct source {
    ff_container *file;
    const ff_json_document *record, *index;
    const ff_json *numbers; /* a list in `index`: the sections of the weights */
    ff_error *error;
    ff_status status; /* of reading sections; `error` describes a failure */
} source;

static const ff_json *step(const ff_json_document *document, const ff_json **at) {
    const ff_json *item = *at;
    *at = ff_json_next(document, item);
    return item;
}

static int is_list(const ff_json *value, size_t most) {
    return value != NULL && value->kind == FF_JSON_LIST && value->count >= 1 &&
           value->count <= most;
}

static int find_type(const ff_json *item, size_t *type) {
    const char *name = ff_json_text(item);
    for (*type = 0; name != NULL && *type < TYPE_COUNT; ++*type) {
        if (strcmp(name, TYPES[*type].name) == 0) return 1;
    }
    return 0;
}

/* Returns the bytes of weights, which must have this size; NULL if there are none. */
static const uint8_t *find_weights(source *from, const ff_json *item, uint64_t size) {
    const ff_json *number = ff_json_first(from->index, from->numbers);
    ff_section section = {NULL, 0};
    int64_t position, at;
    if (from->numbers == NULL ||
        !ff_json_integer(item, 0, (int64_t)from->numbers->count - 1, &position)) {
        return NULL;
    }
    for (; position > 0; position--) number = ff_json_next(from->index, number);
    if (!ff_json_integer(number, 0, INT32_MAX, &at)) return NULL;
    from->status = ff_container_section(from->file, at, "weights", &section, from->error);
    return from->status == FF_OK && section.size == size ? section.bytes : NULL;
}

/* Fills in where each index of an axis is, from the sizes and strides of its factors. */
static int fill_offsets(piece *part, int axis, const uint64_t *sizes, const uint64_t *strides,
                        size_t count) {
    size_t length = (size_t)part->shape[axis];
    part->offsets[axis] = malloc(length * sizeof *part->offsets[axis]);
    if (part->offsets[axis] == NULL) return 0;
    for (size_t index = 0; index < length; index++) {
        uint64_t rest = index, offset = 0;
        for (size_t i = count; i > 0; i--) {
            offset += rest % sizes[i - 1] * strides[i - 1];
            rest /= sizes[i - 1];
        }
        part->offsets[axis][index] = (size_t)offset;
    }
    return 1;
}

/* Reads the strides of all dimensions from their order in memory. */
static int read_order(const ff_json_document *record, const ff_json *order, const uint64_t *sizes,
                      uint64_t *strides, size_t count, uint64_t limit, uint64_t *elements) {
    int64_t dimensions[MAX_DIMENSIONS];
    const ff_json *at = ff_json_first(record, order);
    unsigned seen = 0;
    if (!is_list(order, MAX_DIMENSIONS) || order->count != count) return 0;
    for (size_t i = 0; i < count; i++) {
        if (!ff_json_integer(step(record, &at), 0, (int64_t)count - 1, &dimensions[i])) return 0;
        seen |= 1u << dimensions[i];
    }
    if (seen != (1u << count) - 1) return 0;
    *elements = 1;
    for (size_t i = count; i > 0; i--) {
        strides[dimensions[i - 1]] = *elements;
        if (sizes[dimensions[i - 1]] > limit / *elements) return 0;
        *elements *= sizes[dimensions[i - 1]];
    }
    return 1;
}

/* Reads shape, factors and order, and fills in the offsets of all axes. */
static int read_layout(piece *part, const ff_json_document *record, const ff_json **at,
                       uint64_t limit) {
    const ff_json *shape = step(record, at), *factors = step(record, at);
    const ff_json *size = ff_json_first(record, shape), *list = ff_json_first(record, factors);
    uint64_t sizes[MAX_DIMENSIONS], strides[MAX_DIMENSIONS], elements;
    size_t counts[MAX_AXES] = {0}, count = 0, first;
    if (!is_list(shape, MAX_AXES) || !is_list(factors, MAX_AXES)) return 0;
    if (shape->count != factors->count) return 0;
    first = MAX_AXES - shape->count;
    for (size_t axis = 0; axis < MAX_AXES; axis++) {
        uint64_t padded = 1;
        int64_t number = 1;
        const ff_json *factor;
        part->shape[axis] = 1;
        if (axis < first) continue;
        if (!ff_json_integer(step(record, &size), 1, (int64_t)limit, &number)) return 0;
        part->shape[axis] = (uint64_t)number;
        if (!is_list(list, MAX_DIMENSIONS - count)) return 0;
        factor = ff_json_first(record, list);
        for (; counts[axis] < list->count; counts[axis]++, count++) {
            if (!ff_json_integer(step(record, &factor), 1, (int64_t)limit, &number)) return 0;
            sizes[count] = (uint64_t)number;
            if (sizes[count] > limit / padded) return 0;
            padded *= sizes[count];
        }
        if (part->shape[axis] > padded) return 0;
        list = ff_json_next(record, list);
    }
    if (!read_order(record, step(record, at), sizes, strides, count, limit, &elements)) return 0;
    part->elements = (size_t)elements;
    count = 0;
    for (int axis = 0; axis < MAX_AXES; axis++) {
        if (!fill_offsets(part, axis, sizes + count, strides + count, counts[axis])) return 0;
        count += counts[axis];
    }
    return 1;
}

/* Reads how bytes stand for numbers: (byte - zero) * scale. */
static int read_grid(piece *part, source *from, const ff_json **at, size_t rank) {
    const ff_json *zero = step(from->record, at), *scale = step(from->record, at);
    const ff_json *axis = step(from->record, at);
    element kind = TYPES[part->type].kind;
    int64_t number;
    double real;
    part->has_grid = 1;
    if (TYPES[part->stored].kind != U8 || !ff_json_integer(zero, 0, 255, &number)) return 0;
    part->zero = (int)number;
    if (scale == NULL || axis == NULL) return 0;
    if (scale->kind == FF_JSON_NULL) return kind == I8 || kind == U8;
    if (kind != F32 && kind != F16) return 0;
    part->has_scale = 1;
    if (axis->kind == FF_JSON_NULL) {
        if (!ff_json_real(scale, &real)) return 0;
        part->scale = (float)real;
        return 1;
    }
    if (!ff_json_integer(axis, 0, (int64_t)rank - 1, &number)) return 0;
    part->axis = (int)(number + MAX_AXES - (int64_t)rank);
    part->scales = find_weights(from, scale, 4 * part->shape[part->axis]);
    return part->scales != NULL;
}

/* Reads a piece of at most `limit` bytes. */
static int read_piece(piece *part, source *from, const ff_json *item, uint64_t limit) {
    const ff_json *at = ff_json_first(from->record, item), *weights, *shape;
    uint64_t stored;
    int64_t start;
    part->axis = -1;
    if (item == NULL || item->kind != FF_JSON_LIST || (item->count != 7 && item->count != 10)) {
        return 0;
    }
    if (!ff_json_integer(step(from->record, &at), 0, (int64_t)limit, &start)) return 0;
    if (!find_type(step(from->record, &at), &part->type)) return 0;
    part->start = (uint64_t)start;
    shape = at;
    if (!read_layout(part, from->record, &at, limit / TYPES[part->type].size)) return 0;
    part->bytes = (uint64_t)part->elements * TYPES[part->type].size;
    weights = step(from->record, &at);
    if (!find_type(step(from->record, &at), &part->stored)) return 0;
    stored = TYPES[part->stored].size;
    for (int axis = 0; axis < MAX_AXES; axis++) stored *= part->shape[axis];
    part->weights = find_weights(from, weights, stored);
    if (part->weights == NULL) return 0;
    if (item->count == 10) return read_grid(part, from, &at, shape->count);
    return part->stored == part->type ||
           (TYPES[part->stored].kind == F16 && TYPES[part->type].kind == F32);
}

static float read_float(const uint8_t *at) {
    float value;
    memcpy(&value, at, sizeof value);
    return value;
}

/* Returns the bits of fp32 with the value of finite fp16. */
static uint32_t widen_half(uint16_t half) {
    uint32_t sign = (uint32_t)(half >> 15) << 31, exponent = half >> 10 & 31, bits = half & 1023;
    if (exponent == 0) {
        if (bits == 0) return sign;
        for (exponent = 1; !(bits & 1024); exponent--) bits <<= 1;
        bits &= 1023;
    }
    return sign | (exponent + 112) << 23 | bits << 13;
}

/* Returns the bits of the fp16 nearest to a finite number, the even one of two. */
static uint16_t round_to_half(float value) {
    uint32_t bits, sign, rest, half, shift = 13;
    memcpy(&bits, &value, sizeof bits);
    sign = bits >> 16 & 0x8000;
    bits &= 0x7FFFFFFF;
    if (bits >= 0x477FF000) return (uint16_t)(sign | 0x7C00); /* rounds to infinity */
    if (bits < 0x38800000) {                                  /* subnormal */
        uint32_t exponent = bits >> 23;
        if (exponent < 102) return (uint16_t)sign;
        shift = 126 - exponent;
        bits = (bits & 0x7FFFFF) | 0x800000;
    } else {
        bits -= 112u << 23;
    }
    half = bits >> shift;
    rest = bits & ((UINT32_C(1) << shift) - 1);
    if (rest > UINT32_C(1) << (shift - 1) || (rest == UINT32_C(1) << (shift - 1) && (half & 1))) {
        half++;
    }
    return (uint16_t)(sign | half);
}

static void store_number(uint8_t *at, element kind, float value) {
    uint16_t half;
    if (kind == F32) {
        memcpy(at, &value, sizeof value);
    } else {
        half = round_to_half(value);
        memcpy(at, &half, sizeof half);
    }
}

/* Writes one row along the last axis; `base` is its offset in elements. */
static void write_row(const piece *part, uint8_t *target, size_t base, const uint8_t *row,
                      float scale) {
    const size_t *offsets = part->offsets[MAX_AXES - 1];
    size_t count = (size_t)part->shape[MAX_AXES - 1], size = TYPES[part->type].size;
    element kind = TYPES[part->type].kind;
    for (size_t i = 0; i < count; i++) {
        uint8_t *at = target + (base + offsets[i]) * size;
        if (part->has_scale) {
            if (part->axis == MAX_AXES - 1) scale = read_float(part->scales + 4 * i);
            store_number(at, kind, (float)(row[i] - part->zero) * scale);
        } else if (part->has_grid) {
            *at = (uint8_t)(row[i] - part->zero);
        } else if (part->stored == part->type) {
            memcpy(at, row + i * size, size);
        } else {
            uint32_t bits = widen_half((uint16_t)(row[2 * i] | row[2 * i + 1] << 8));
            memcpy(at, &bits, sizeof bits);
        }
    }
}

static void write_piece(const piece *part, uint8_t *target) {
    size_t row_bytes = (size_t)part->shape[MAX_AXES - 1] * TYPES[part->stored].size;
    const uint8_t *row = part->weights;
    size_t at[MAX_AXES];
    for (at[0] = 0; at[0] < part->shape[0]; at[0]++) {
        for (at[1] = 0; at[1] < part->shape[1]; at[1]++) {
            for (at[2] = 0; at[2] < part->shape[2]; at[2]++, row += row_bytes) {
                size_t base = part->offsets[0][at[0]] + part->offsets[1][at[1]] +
                              part->offsets[2][at[2]];
                float scale = part->scale;
                if (part->axis >= 0 && part->axis < MAX_AXES - 1) {
                    scale = read_float(part->scales + 4 * at[part->axis]);
                }
                write_row(part, target, base, row, scale);
            }
        }
    }
}

/* Expands all pieces, and copies the bytes between them; returns 0 if the record is invalid. */
static int expand_pieces(source *from, const ff_json *list, ff_section remaining,
                         uint8_t *block, uint64_t size) {
    const ff_json *at = ff_json_first(from->record, list);
    uint64_t cursor = 0, used = 0, gap;
    while (at != NULL) {
        piece part = {0};
        int good = read_piece(&part, from, step(from->record, &at), size);
        good = good && part.start >= cursor && part.bytes <= size - part.start &&
               part.start - cursor <= remaining.size - used;
        if (good) {
            gap = part.start - cursor;
            if (gap > 0) memcpy(block + cursor, remaining.bytes + used, (size_t)gap);
            used += gap;
            cursor = part.start + part.bytes;
            write_piece(&part, block + part.start);
        }
        for (int axis = 0; axis < MAX_AXES; axis++) free(part.offsets[axis]);
        if (!good) return 0;
    }
    gap = remaining.size - used;
    if (gap != size - cursor) return 0;
    if (gap > 0) memcpy(block + cursor, remaining.bytes + used, (size_t)gap);
    return 1;
}

ff_status ff_expand_constants(ff_container *file, const ff_json_document *record,
                              const ff_json *description, const ff_json_document *index,
                              const ff_json *weights, ff_section remaining, ff_section *constants,
                              void **memory, ff_error *error) {
    source from = {file, record, index, weights, error, FF_OK};
    const ff_json *at = ff_json_first(record, description), *list;
    int64_t size = 0, most = (int64_t)file->size * MAX_EXPANSION;
    uint8_t *block = NULL;
    int good = is_list(description, 2) && ff_json_integer(step(record, &at), 0, most, &size);
    list = good ? step(record, &at) : NULL;
    good = list != NULL && list->kind == FF_JSON_LIST;
    if (good) {
        *memory = calloc((size_t)size + FF_CONSTANTS_ALIGNMENT, 1);
        if (*memory == NULL) return ff_no_memory(error);
        block = (uint8_t *)(((uintptr_t)*memory + FF_CONSTANTS_ALIGNMENT - 1) /
                            FF_CONSTANTS_ALIGNMENT * FF_CONSTANTS_ALIGNMENT);
        good = expand_pieces(&from, list, remaining, block, (uint64_t)size);
    }
    if (from.status != FF_OK) return from.status;
    if (!good) {
        return ff_fail(error, FF_FILE,
                       "the file is damaged: the record of its constants is invalid; prepare the "
                       "model again");
    }
    constants->bytes = block;
    constants->size = (size_t)size;
    return FF_OK;
}
