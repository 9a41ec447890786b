/* Formats lines of JSON. */
#include "report.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../json.h"

static int grow(ff_line *line, size_t more) {
    size_t capacity = 2 * (line->used + more) + 256;
    char *text;
    if (line->used + more < line->capacity) return 1;
    text = realloc(line->text, capacity);
    if (text == NULL) return 0;
    line->text = text;
    line->capacity = capacity;
    return 1;
}

void ff_add(ff_line *line, const char *format, ...) {
    va_list arguments;
    int size;
    va_start(arguments, format);
    size = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (size < 0 || !grow(line, (size_t)size)) return;
    va_start(arguments, format);
    vsnprintf(line->text + line->used, (size_t)size + 1, format, arguments);
    va_end(arguments);
    line->used += (size_t)size;
}

void ff_add_text(ff_line *line, const char *name, const char *text) {
    size_t size = ff_json_quote(NULL, 0, 0, text);
    ff_add(line, "\"%s\": ", name);
    if (grow(line, size)) line->used = ff_json_quote(line->text, line->capacity, line->used, text);
}

void ff_add_tensor(ff_line *line, const ff_tensor *tensor) {
    ff_add(line, "{");
    ff_add_text(line, "name", tensor->name);
    ff_add(line, ", \"type\": \"%s\", \"bytes\": %llu, \"quantization\": ", tensor->text,
           (unsigned long long)tensor->bytes);
    if (tensor->scale_count == 0) {
        ff_add(line, "null");
        return;
    }
    for (size_t i = 0; i < tensor->scale_count; i++) {
        ff_add(line, "%s%.17g", i ? ", " : "[[", tensor->scales[i]);
    }
    ff_add(line, "], [");
    for (size_t i = 0; i < tensor->zero_point_count; i++) {
        ff_add(line, "%s%lld", i ? ", " : "", (long long)tensor->zero_points[i]);
    }
    if (tensor->axis < 0) ff_add(line, "], null]");
    else ff_add(line, "], %d]", tensor->axis);
}

/* Returns whether the CPU has 8-bit dot products (AVX-512 VNNI), according to /proc/cpuinfo. */
static int multiplies_bytes(void) {
    char text[8192];
    int has_vnni = 0, has_vl = 0;
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file != NULL && fgets(text, sizeof text, file) != NULL) {
        if (strncmp(text, "flags", 5) != 0) continue;
        for (char *word = strtok(text, " \t\n"); word != NULL; word = strtok(NULL, " \t\n")) {
            has_vnni = has_vnni || strcmp(word, "avx512_vnni") == 0;
            has_vl = has_vl || strcmp(word, "avx512vl") == 0;
        }
        break;
    }
    if (file != NULL) fclose(file);
    return has_vnni && has_vl;
}

void ff_add_device(ff_line *line, const ff_device *device) {
    const char *word = device->extensions;
    ff_add(line, "{\"device\": %u, ", device->number);
    ff_add_text(line, "name", device->name);
    ff_add(line, ", ");
    ff_add_text(line, "vendor", device->vendor);
    ff_add(line, ", ");
    ff_add_text(line, "platform", device->platform);
    ff_add(line, ", ");
    ff_add_text(line, "driver", device->driver);
    ff_add(line, ", ");
    ff_add_text(line, "version", device->version);
    ff_add(line, ", \"kind\": \"%s\", \"compute_units\": %u, \"memory\": %llu", device->kind,
           device->compute_units, (unsigned long long)device->memory);
    ff_add(line, ", \"max_allocation\": %llu, \"max_work_group\": %llu, \"local_memory\": %llu",
           (unsigned long long)device->max_allocation, (unsigned long long)device->max_work_group,
           (unsigned long long)device->local_memory);
    ff_add(line, ", \"alignment\": %u, \"unified_memory\": %s, \"address_bits\": %u",
           device->alignment, device->unified_memory ? "true" : "false", device->address_bits);
    ff_add(line, ", \"language_version\": \"%s\", \"uuid\": \"%s\", \"extensions\": [",
           device->language_version, device->uuid);
    for (int first = 1; *(word += strspn(word, " ")) != 0; first = 0) {
        int size = (int)strcspn(word, " ");
        ff_add(line, "%s\"%.*s\"", first ? "" : ", ", size, word);
        word += size;
    }
    ff_add(line, "], \"image_texels\": %llu, \"multiplies_bytes\": %s}",
           (unsigned long long)device->image_texels, multiplies_bytes() ? "true" : "false");
}

void ff_print_line(ff_line *line) {
    if (line->text != NULL) printf("%s\n", line->text);
    fflush(stdout);
    free(line->text);
    memset(line, 0, sizeof *line);
}

void ff_print_error(const char *model, size_t number, const ff_error *error, int json) {
    ff_line line = {0};
    if (!json) {
        fprintf(stderr, "error: %s%s%s\n", model ? model : "", model ? ": " : "", error->text);
        return;
    }
    ff_add(&line, "{");
    if (model != NULL) {
        ff_add_text(&line, "model", model);
        ff_add(&line, ", \"number\": %llu, ", (unsigned long long)number);
    }
    ff_add_text(&line, "error", error->text);
    ff_add(&line, ", \"status\": \"%s\"}", ff_status_name(error->status));
    ff_print_line(&line);
}
