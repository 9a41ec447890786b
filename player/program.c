/* Loads the program of a plan: a binary of the file or of a cache folder, else its source. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "blake2b.h"
#include "model.h"

enum { PART_COUNT = 8, PATH_BYTES = 4096 };

/* Everything a binary depends on, sorted by label, and the digest of it. */
typedef struct parts {
    const char *labels[PART_COUNT], *values[PART_COUNT];
    char text[33], key[33];
} parts;

static void fill_parts(parts *result, const ff_model *model) {
    static const char *const labels[PART_COUNT] = {"device",  "driver",   "format", "kind of entry",
                                                   "options", "platform", "text",   "version"};
    const ff_device *device = &model->player->device->facts;
    const char *values[PART_COUNT] = {device->name,        device->driver,   "1",  "binary",
                                      model->plan.options, device->platform, NULL, device->version};
    ff_blake2b digest;
    ff_blake2b_begin(&digest);
    ff_blake2b_add(&digest, model->plan.text.bytes, model->plan.text.size);
    ff_blake2b_end(&digest, result->text);
    values[6] = result->text;
    memcpy(result->labels, labels, sizeof labels);
    memcpy(result->values, values, sizeof values);
    ff_blake2b_begin(&digest);
    for (int i = 0; i < PART_COUNT; i++) {
        char head[64];
        snprintf(head, sizeof head, "%s:%llu:", labels[i], (unsigned long long)strlen(values[i]));
        ff_blake2b_add(&digest, head, strlen(head));
        ff_blake2b_add(&digest, values[i], strlen(values[i]));
    }
    ff_blake2b_end(&digest, result->key);
}

static int parts_match(const parts *own, const ff_json_document *document, const ff_json *object) {
    if (object == NULL || object->count != PART_COUNT) return 0;
    for (int i = 0; i < PART_COUNT; i++) {
        const char *value = ff_json_text(ff_json_get(document, object, own->labels[i]));
        if (value == NULL || strcmp(value, own->values[i]) != 0) return 0;
    }
    return 1;
}

/* Creates a program from a binary; returns NULL if the driver rejects it. */
static ff_cl load_binary(const ff_model *model, ff_section binary) {
    const ff_opencl *cl = &model->player->cl;
    ff_cl device = model->player->device->device, program;
    int32_t status = 0, binary_status = 0;
    if (binary.size == 0) return NULL;
    program = cl->CreateProgramWithBinary(model->player->context, 1, &device, &binary.size,
                                          &binary.bytes, &binary_status, &status);
    if (status != 0) return NULL;
    if (cl->BuildProgram(program, 1, &device, model->plan.options, NULL, NULL) == 0) return program;
    cl->ReleaseProgram(program);
    return NULL;
}

static ff_cl load_file_binary(const ff_model *model, const parts *own) {
    const ff_index *index = &model->player->index;
    const ff_json *row = ff_json_first(&index->document, index->binaries);
    for (; row != NULL; row = ff_json_next(&index->document, row)) {
        ff_section binary;
        int64_t number;
        if (!parts_match(own, &index->document, ff_json_get(&index->document, row, "parts")))
            continue;
        if (!ff_json_integer(ff_json_get(&index->document, row, "section"), 0, INT32_MAX,
                             &number) ||
            ff_container_section(&model->player->file, number, "binary", &binary, NULL) != FF_OK) {
            return NULL;
        }
        return load_binary(model, binary);
    }
    return NULL;
}

static int join_path(char path[PATH_BYTES], const char *folder, const char *key, const char *end) {
    return snprintf(path, PATH_BYTES, "%s/%s%s", folder, key, end) < PATH_BYTES;
}

/* Loads a cached binary, unless another user may have written it. A marker file exists while the driver loads it, so that a binary that
 * crashed a process is not loaded again until it is replaced. */
static ff_cl load_cached_binary(const ff_model *model, const parts *own, const char *folder) {
    char path[PATH_BYTES], marker[PATH_BYTES];
    ff_container file;
    ff_section head, binary;
    ff_json_document document;
    ff_cl program = NULL;
    if (!join_path(path, folder, own->key, ".fourfold") ||
        !join_path(marker, folder, own->key, ".mark")) {
        return NULL;
    }
    if (!ff_is_private(folder) || !ff_is_private(path) || ff_file_exists(marker)) return NULL;
    if (ff_container_open(&file, path, NULL) != FF_OK) return NULL;
    if (ff_container_section(&file, 0, "entry", &head, NULL) == FF_OK &&
        ff_container_section(&file, 1, "binary", &binary, NULL) == FF_OK &&
        ff_json_read(&document, head.bytes, head.size)) {
        if (parts_match(own, &document, ff_json_get(&document, document.nodes, "parts")) &&
            ff_write_file(marker, NULL, NULL, 0)) {
            program = load_binary(model, binary);
            ff_remove_file(marker);
        }
        ff_json_free(&document);
    }
    ff_container_close(&file);
    return program;
}

static ff_status build_source(ff_model *model, ff_error *error) {
    const ff_opencl *cl = &model->player->cl;
    const char *text = (const char *)model->plan.text.bytes;
    ff_cl device = model->player->device->device;
    char log[600] = "";
    size_t size = 0;
    int32_t status = 0;
    ff_cl program = cl->CreateProgramWithSource(model->player->context, 1, &text,
                                                &model->plan.text.size, &status);
    if (status != 0) return ff_opencl_fail(error, "creating a program", status);
    status = cl->BuildProgram(program, 1, &device, model->plan.options, NULL, NULL);
    if (status == 0) {
        model->program = program;
        return FF_OK;
    }
    if (cl->GetProgramBuildInfo(program, device, CL_BUILD_LOG, 0, NULL, &size) == 0 && size > 0) {
        char *full_log = calloc(size + 1, 1);
        if (full_log != NULL &&
            cl->GetProgramBuildInfo(program, device, CL_BUILD_LOG, size, full_log, NULL) == 0) {
            size_t spaces = strspn(full_log, " \t\r\n");
            snprintf(log, sizeof log, "%.*s", (int)strcspn(full_log + spaces, "\r\n"),
                     full_log + spaces);
        }
        free(full_log);
    }
    cl->ReleaseProgram(program);
    return ff_fail(error, FF_BUILD, "the kernels do not build on %s (OpenCL error %d): %s",
                   model->player->device->facts.name, (int)status, log);
}

/* Returns the JSON record of a cache entry, to be freed; NULL if memory runs out. */
static char *make_entry(const parts *own, const char *title) {
    char *head = NULL;
    size_t capacity = 0, used = 0;
    do { /* the first pass measures, the second writes */
        if (capacity > 0 && (head = malloc(capacity)) == NULL) return NULL;
        used = ff_json_put(head, capacity, 0, "{\"kind\": \"binary\", \"title\": ");
        used = ff_json_quote(head, capacity, used, title);
        for (int i = 0; i < PART_COUNT; i++) {
            used = ff_json_put(head, capacity, used, i ? ", " : ", \"parts\": {");
            used = ff_json_quote(head, capacity, used, own->labels[i]);
            used = ff_json_put(head, capacity, used, ": ");
            used = ff_json_quote(head, capacity, used, own->values[i]);
        }
        used = ff_json_put(head, capacity, used, "}}");
        if (capacity > 0) return head;
        capacity = used + 1;
    } while (1);
}

/* PoCL compiles every kernel again to return a binary, and has a cache of its own. */
static int is_binary_cheap(const ff_model *model) {
    return strcmp(model->player->device->facts.platform, "Portable Computing Language") != 0;
}

ff_status ff_program_save(ff_model *model, const char *folder, char *path, size_t capacity,
                          ff_error *error) {
    static const char *const names[2] = {"entry", "binary"};
    const ff_opencl *cl = &model->player->cl;
    char target[PATH_BYTES], marker[PATH_BYTES];
    ff_section sections[2] = {{NULL, 0}, {NULL, 0}};
    uint8_t *binary;
    char *head;
    parts own;
    size_t size = 0;
    int good;
    fill_parts(&own, model);
    if (!join_path(target, folder, own.key, ".fourfold") ||
        !join_path(marker, folder, own.key, ".mark")) {
        return ff_fail(error, FF_ARGUMENT, "the path of the folder for binaries is too long");
    }
    if (cl->GetProgramInfo(model->program, CL_BINARY_SIZES, sizeof size, &size, NULL) ||
        size == 0) {
        return ff_fail(error, FF_DEVICE, "the driver does not provide a binary of the program");
    }
    binary = malloc(size);
    head = make_entry(&own, model->name);
    good = binary != NULL && head != NULL;
    if (good &&
        cl->GetProgramInfo(model->program, CL_BINARIES, sizeof binary, &binary, NULL) == 0) {
        sections[0].bytes = (const uint8_t *)head;
        sections[0].size = strlen(head);
        sections[1].bytes = binary;
        sections[1].size = size;
        ff_create_folder(folder);
        good = ff_container_write(target, names, sections);
        if (good) ff_remove_file(marker);
    }
    free(binary);
    free(head);
    if (!good || sections[1].size == 0) {
        return ff_fail(error, FF_FILE, "cannot write the binary to '%s'", target);
    }
    if (path != NULL) snprintf(path, capacity, "%s", target);
    return FF_OK;
}

ff_status ff_program_load(ff_model *model, const char *cache, ff_error *error) {
    ff_status status = FF_OK;
    parts own;
    fill_parts(&own, model);
    model->origin = "file";
    if (model->player->trust != FF_TRUST_DATA) model->program = load_file_binary(model, &own);
    if (model->program == NULL && cache != NULL) {
        model->origin = "cache";
        model->program = load_cached_binary(model, &own, cache);
    }
    if (model->program == NULL) {
        model->origin = "text";
        status = build_source(model, error);
        if (status == FF_OK && cache != NULL && is_binary_cheap(model)) {
            ff_program_save(model, cache, NULL, 0,
                            NULL); /* a failure only costs the next start time */
        }
    }
    return status;
}
