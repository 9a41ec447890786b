/* The program of a plan: a binary of the file or of a cache folder, else built of its text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "blake2b.h"
#include "model.h"

enum { PARTS = 8, PATH_ROOM = 4096 };

/* What a binary depends on, sorted by label, and the digest of all of that. */
typedef struct parts {
    const char *labels[PARTS], *values[PARTS];
    char text[33], key[33];
} parts;

static void make_parts(parts *found, const ff_model *model) {
    static const char *const labels[PARTS] = {"device",  "driver",   "format", "kind of entry",
                                              "options", "platform", "text",   "version"};
    const ff_device *device = &model->player->device->facts;
    const char *values[PARTS] = {device->name,        device->driver,   "1",  "binary",
                                 model->plan.options, device->platform, NULL, device->version};
    ff_blake2b digest;
    ff_blake2b_begin(&digest);
    ff_blake2b_add(&digest, model->plan.text.bytes, model->plan.text.size);
    ff_blake2b_end(&digest, found->text);
    values[6] = found->text;
    memcpy(found->labels, labels, sizeof labels);
    memcpy(found->values, values, sizeof values);
    ff_blake2b_begin(&digest);
    for (int i = 0; i < PARTS; i++) {
        char head[64];
        snprintf(head, sizeof head, "%s:%llu:", labels[i], (unsigned long long)strlen(values[i]));
        ff_blake2b_add(&digest, head, strlen(head));
        ff_blake2b_add(&digest, values[i], strlen(values[i]));
    }
    ff_blake2b_end(&digest, found->key);
}

static int are_parts(const parts *own, const ff_json_document *document, const ff_json *object) {
    if (object == NULL || object->count != PARTS) return 0;
    for (int i = 0; i < PARTS; i++) {
        const char *value = ff_json_text(ff_json_get(document, object, own->labels[i]));
        if (value == NULL || strcmp(value, own->values[i]) != 0) return 0;
    }
    return 1;
}

/* A program of a binary; NULL where the driver does not take it. */
static ff_cl load_binary(const ff_model *model, ff_section binary) {
    const ff_opencl *cl = &model->player->cl;
    ff_cl device = model->player->device->device, program;
    int32_t status = 0, taken = 0;
    if (binary.size == 0) return NULL;
    program = cl->CreateProgramWithBinary(model->player->context, 1, &device, &binary.size,
                                          &binary.bytes, &taken, &status);
    if (status != 0) return NULL;
    if (cl->BuildProgram(program, 1, &device, model->plan.options, NULL, NULL) == 0) return program;
    cl->ReleaseProgram(program);
    return NULL;
}

static ff_cl load_from_file(const ff_model *model, const parts *own) {
    const ff_index *index = &model->player->index;
    const ff_json *row = ff_json_first(&index->document, index->binaries);
    for (; row != NULL; row = ff_json_next(&index->document, row)) {
        ff_section binary;
        int64_t number;
        if (!are_parts(own, &index->document, ff_json_get(&index->document, row, "parts")))
            continue;
        if (!ff_json_whole(ff_json_get(&index->document, row, "section"), 0, INT32_MAX, &number) ||
            ff_container_section(&model->player->file, number, "binary", &binary, NULL) != FF_OK) {
            return NULL;
        }
        return load_binary(model, binary);
    }
    return NULL;
}

static int path_in(char path[PATH_ROOM], const char *folder, const char *key, const char *end) {
    return snprintf(path, PATH_ROOM, "%s/%s%s", folder, key, end) < PATH_ROOM;
}

/* A kept binary. While it is loaded a mark lies beside it: one that a process died of is not
 * loaded again, until another one takes its place. */
static ff_cl load_from_cache(const ff_model *model, const parts *own, const char *folder) {
    char path[PATH_ROOM], mark[PATH_ROOM];
    ff_container file;
    ff_section head, binary;
    ff_json_document document;
    ff_cl program = NULL;
    if (!path_in(path, folder, own->key, ".fourfold") ||
        !path_in(mark, folder, own->key, ".mark")) {
        return NULL;
    }
    if (ff_file_exists(mark) || ff_container_open(&file, path, NULL) != FF_OK) return NULL;
    if (ff_container_section(&file, 0, "entry", &head, NULL) == FF_OK &&
        ff_container_section(&file, 1, "binary", &binary, NULL) == FF_OK &&
        ff_json_read(&document, head.bytes, head.size)) {
        if (are_parts(own, &document, ff_json_get(&document, document.nodes, "parts")) &&
            ff_write_file(mark, NULL, NULL, 0)) {
            program = load_binary(model, binary);
            ff_remove_file(mark);
        }
        ff_json_free(&document);
    }
    ff_container_close(&file);
    return program;
}

static ff_status build_text(ff_model *model, ff_error *error) {
    const ff_opencl *cl = &model->player->cl;
    const char *text = (const char *)model->plan.text.bytes;
    ff_cl device = model->player->device->device;
    char log[600] = "";
    size_t size = 0;
    int32_t status = 0;
    ff_cl program = cl->CreateProgramWithSource(model->player->context, 1, &text,
                                                &model->plan.text.size, &status);
    if (status != 0) return ff_opencl_fail(error, "taking the text of kernels", status);
    status = cl->BuildProgram(program, 1, &device, model->plan.options, NULL, NULL);
    if (status == 0) {
        model->program = program;
        return FF_OK;
    }
    if (cl->GetProgramBuildInfo(program, device, CL_BUILD_LOG, 0, NULL, &size) == 0 && size > 0) {
        char *whole = calloc(size + 1, 1);
        if (whole != NULL &&
            cl->GetProgramBuildInfo(program, device, CL_BUILD_LOG, size, whole, NULL) == 0) {
            size_t blanks = strspn(whole, " \t\r\n");
            snprintf(log, sizeof log, "%.*s", (int)strcspn(whole + blanks, "\r\n"), whole + blanks);
        }
        free(whole);
    }
    cl->ReleaseProgram(program);
    return ff_fail(error, FF_BUILD, "the kernels do not build on %s (OpenCL's error %d): %s",
                   model->player->device->facts.name, (int)status, log);
}

/* The head of an entry: what its binary is good for. */
static char *make_head(const parts *own, const char *title) {
    char *head = NULL;
    size_t room = 0, used = 0;
    do { /* first how much, then what */
        if (room > 0 && (head = malloc(room)) == NULL) return NULL;
        used = ff_json_put(head, room, 0, "{\"kind\": \"binary\", \"title\": ");
        used = ff_json_quote(head, room, used, title);
        for (int i = 0; i < PARTS; i++) {
            used = ff_json_put(head, room, used, i ? ", " : ", \"parts\": {");
            used = ff_json_quote(head, room, used, own->labels[i]);
            used = ff_json_put(head, room, used, ": ");
            used = ff_json_quote(head, room, used, own->values[i]);
        }
        used = ff_json_put(head, room, used, "}}");
        if (room > 0) return head;
        room = used + 1;
    } while (1);
}

/* PoCL compiles every kernel once more for its binary, for seconds, and has a cache of its own. */
static int binary_costs_nothing(const ff_model *model) {
    return strcmp(model->player->device->facts.platform, "Portable Computing Language") != 0;
}

ff_status ff_program_save(ff_model *model, const char *folder, char *path, size_t room,
                          ff_error *error) {
    static const char *const names[2] = {"entry", "binary"};
    const ff_opencl *cl = &model->player->cl;
    char target[PATH_ROOM], mark[PATH_ROOM];
    ff_section sections[2] = {{NULL, 0}, {NULL, 0}};
    uint8_t *binary;
    char *head;
    parts own;
    size_t size = 0;
    int good;
    make_parts(&own, model);
    if (!path_in(target, folder, own.key, ".fourfold") ||
        !path_in(mark, folder, own.key, ".mark")) {
        return ff_fail(error, FF_ARGUMENT, "the path of a folder for binaries is too long");
    }
    if (cl->GetProgramInfo(model->program, CL_BINARY_SIZES, sizeof size, &size, NULL) ||
        size == 0) {
        return ff_fail(error, FF_DEVICE, "the driver gives no binary of a program");
    }
    binary = malloc(size);
    head = make_head(&own, model->name);
    good = binary != NULL && head != NULL;
    if (good &&
        cl->GetProgramInfo(model->program, CL_BINARIES, sizeof binary, &binary, NULL) == 0) {
        sections[0].bytes = (const uint8_t *)head;
        sections[0].size = strlen(head);
        sections[1].bytes = binary;
        sections[1].size = size;
        ff_make_folder(folder);
        good = ff_container_write(target, names, sections);
        if (good) ff_remove_file(mark);
    }
    free(binary);
    free(head);
    if (!good || sections[1].size == 0) {
        return ff_fail(error, FF_FILE, "the binary cannot be written to '%s'", target);
    }
    if (path != NULL) snprintf(path, room, "%s", target);
    return FF_OK;
}

ff_status ff_program_load(ff_model *model, const char *cache, ff_error *error) {
    ff_status status = FF_OK;
    parts own;
    make_parts(&own, model);
    model->origin = "file";
    model->program = load_from_file(model, &own);
    if (model->program == NULL && cache != NULL) {
        model->origin = "cache";
        model->program = load_from_cache(model, &own, cache);
    }
    if (model->program == NULL) {
        model->origin = "text";
        status = build_text(model, error);
        if (status == FF_OK && cache != NULL && binary_costs_nothing(model)) {
            ff_program_save(model, cache, NULL, 0, NULL); /* that it failed costs speed, no run */
        }
    }
    return status;
}
