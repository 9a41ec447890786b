/* Reads and writes arrays as .npy files. */
#include "arrays.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../container.h"
#include "../platform.h"

enum { MAGIC_BYTES = 6, HEADER_BYTES_V1 = 10, HEADER_BYTES_V2 = 12, HEADER_ALIGNMENT = 64 };

static const char *const TYPES[] = {"<f2", "<f4", "<f8", "|i1", "<i2", "<i4", "<i8",
                                    "|u1", "<u2", "<u4", "<u8", "|b1", "<c8", "<c16"};

/* Formats the shape of a tensor as in the header of a .npy file. */
static void format_shape(const ff_tensor *tensor, char shape[512]) {
    int used = snprintf(shape, 512, "(");
    for (size_t i = 0; i < tensor->rank && used < 480; i++) {
        used += snprintf(shape + used, 512 - (size_t)used, i ? ", %llu" : "%llu",
                         (unsigned long long)tensor->shape[i]);
    }
    snprintf(shape + used, 512 - (size_t)used, tensor->rank == 1 ? ",)" : ")");
}

/* Returns the offset of the data of a .npy file; 0 if its type or shape differs. */
static size_t check_header(const uint8_t *bytes, size_t size, const ff_tensor *tensor) {
    char header[2048], expected_shape[600], shape[512];
    size_t start = bytes[MAGIC_BYTES] == 1 ? HEADER_BYTES_V1 : HEADER_BYTES_V2, length = 0;
    if (size < HEADER_BYTES_V2) return 0;
    for (size_t i = start - 1; i >= 8; i--) length = length << 8 | bytes[i];
    if (length >= sizeof header || start + length > size) return 0;
    memcpy(header, bytes + start, length);
    header[length] = 0;
    format_shape(tensor, shape);
    snprintf(expected_shape, sizeof expected_shape, "'shape': %s", shape);
    if (strstr(header, expected_shape) == NULL || strstr(header, TYPES[tensor->type]) == NULL)
        return 0;
    if (strstr(header, "'fortran_order': False") == NULL) return 0;
    return start + length;
}

void *ff_read_array(const char *path, const ff_tensor *tensor, ff_error *error) {
    const uint8_t *bytes;
    char why[256] = "";
    size_t size, start = 0;
    void *array = NULL;
    if (!ff_map_file(path, &bytes, &size, why, sizeof why)) {
        ff_fail(error, FF_ARGUMENT, "cannot read '%s': %s", path, why);
        return NULL;
    }
    if (size > MAGIC_BYTES && memcmp(bytes, "\x93NUMPY", MAGIC_BYTES) == 0) {
        start = check_header(bytes, size, tensor);
        if (start == 0) size = 0;
    }
    if (size - start == tensor->bytes && size > 0) {
        array = malloc(tensor->bytes + 1);
        if (array != NULL) memcpy(array, bytes + start, tensor->bytes);
        else ff_no_memory(error);
    } else {
        ff_fail(error, FF_ARGUMENT, "'%s' does not match the input '%s' of type %s", path,
                tensor->name, tensor->text);
    }
    ff_unmap_file(bytes, size > 0 ? size : 1);
    return array;
}

ff_status ff_write_array(const char *path, const ff_tensor *tensor, const void *bytes,
                         ff_error *error) {
    char header[1024] = "\x93NUMPY\x01", shape[512];
    const void *pieces[2] = {header, bytes};
    size_t sizes[2] = {0, tensor->bytes};
    int used;
    format_shape(tensor, shape);
    used = HEADER_BYTES_V1 + snprintf(header + HEADER_BYTES_V1, sizeof header - HEADER_BYTES_V1,
                                      "{'descr': '%s', 'fortran_order': False, 'shape': %s, }",
                                      TYPES[tensor->type], shape);
    sizes[0] = ((size_t)used + HEADER_ALIGNMENT) / HEADER_ALIGNMENT * HEADER_ALIGNMENT;
    memset(header + used, ' ', sizes[0] - (size_t)used);
    header[sizes[0] - 1] = '\n';
    header[8] = (char)((sizes[0] - HEADER_BYTES_V1) & 255);
    header[9] = (char)((sizes[0] - HEADER_BYTES_V1) >> 8);
    if (ff_write_file(path, pieces, sizes, 2)) return FF_OK;
    return ff_fail(error, FF_FILE, "cannot write '%s'", path);
}

/* Returns the bits of steps/1024 as fp16, for which C99 has no type. */
static uint16_t half(uint32_t steps) {
    uint16_t exponent = 15;
    if (steps == 0) return 0;
    for (steps &= 1023, steps += steps == 0; steps < 1024; steps <<= 1) exponent--;
    return (uint16_t)(exponent << 10 | (steps & 1023));
}

void *ff_random_array(const ff_tensor *tensor, ff_error *error) {
    uint8_t *array = calloc(tensor->bytes + 8, 1);
    size_t size = tensor->type >= FF_C64 ? tensor->element_bytes / 2 : tensor->element_bytes;
    ff_type type = tensor->type == FF_C64    ? FF_F32
                   : tensor->type == FF_C128 ? FF_F64
                                             : tensor->type;
    uint64_t state = 1;
    if (array == NULL) ff_no_memory(error);
    for (size_t at = 0; array != NULL && at < tensor->bytes; at += size) {
        uint32_t bits;
        union {
            float real;
            double number;
            uint16_t half;
            uint8_t bytes[8];
        } value = {0};
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        bits = (uint32_t)(state >> 40); /* 24 bits */
        if (type == FF_F32) value.real = (float)bits / 16777216.0f;
        else if (type == FF_F64) value.number = (double)bits / 16777216.0;
        else if (type == FF_F16) value.half = half(bits >> 14);
        else value.bytes[0] = size == 1 && type != FF_BOOL ? (uint8_t)(bits >> 16) : bits & 1;
        memcpy(array + at, value.bytes, size);
    }
    return array;
}
