/* Implements fourfold.h: handles, locks, and checks of arguments. */
#include "fourfold.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

const char *ff_status_name(ff_status status) {
    static const char *const names[] = {"ok",   "argument", "file",   "opencl",
                                        "plan", "build",    "device", "memory"};
    return (unsigned)status < sizeof names / sizeof *names ? names[status] : "unknown";
}

ff_status ff_devices(ff_device **devices, size_t *count, ff_error *error) {
    ff_opencl cl;
    ff_device_entry *entries = NULL;
    ff_status status;
    *devices = NULL;
    *count = 0;
    status = ff_opencl_load(&cl, error);
    if (status == FF_OK) status = ff_opencl_devices(&cl, &entries, count, error);
    if (status != FF_OK) return status;
    *devices = malloc(*count * sizeof **devices);
    if (*devices == NULL) {
        ff_opencl_free_devices(entries, *count);
        return ff_no_memory(error);
    }
    for (size_t i = 0; i < *count; i++) (*devices)[i] = entries[i].facts;
    free(entries);
    return FF_OK;
}

void ff_free_devices(ff_device *devices, size_t count) {
    for (size_t i = 0; i < count; i++) free((void *)(uintptr_t)devices[i].extensions);
    free(devices);
}

static int contains(const char *text, const char *part) {
    for (; *text != 0; text++) {
        size_t i = 0;
        while (part[i] && tolower((unsigned char)text[i]) == tolower((unsigned char)part[i])) i++;
        if (part[i] == 0) return 1;
    }
    return 0;
}

static int matches_device(const ff_device *device, const char *requested) {
    if (requested[strspn(requested, "0123456789")] == 0) {
        return strtoul(requested, NULL, 10) == device->number;
    }
    return strcmp(requested, device->kind) == 0 || contains(device->name, requested) ||
           contains(device->platform, requested) || contains(device->vendor, requested);
}

static ff_status choose_device(ff_player *player, const char *requested, ff_error *error) {
    ff_status status =
        ff_opencl_devices(&player->cl, &player->devices, &player->device_count, error);
    int any = requested == NULL || *requested == 0;
    if (status != FF_OK) {
        player->devices = NULL;
        player->device_count = 0;
        return status;
    }
    for (size_t i = 0; player->device == NULL && i < player->device_count; i++) {
        if (matches_device(&player->devices[i].facts, any ? "gpu" : requested)) {
            player->device = &player->devices[i];
        }
    }
    if (any && player->device == NULL) player->device = player->devices;
    if (player->device != NULL) return FF_OK;
    return ff_fail(error, FF_OPENCL,
                   "no OpenCL device matches '%s'; this machine has %u, the first is %s", requested,
                   (unsigned)player->device_count, player->devices[0].facts.name);
}

static ff_status make_context(ff_player *player, ff_error *error) {
    intptr_t properties[3] = {CL_CONTEXT_PLATFORM, (intptr_t)player->device->platform, 0};
    int32_t status = 0;
    player->context =
        player->cl.CreateContext(properties, 1, &player->device->device, NULL, NULL, &status);
    if (status == 0) return FF_OK;
    player->context = NULL;
    return ff_opencl_fail(error, "creating a context", status);
}

static void free_player(ff_player *player) {
    if (player->context != NULL) player->cl.ReleaseContext(player->context);
    ff_json_free(&player->index.document);
    ff_container_close(&player->file);
    ff_opencl_free_devices(player->devices, player->device_count);
    ff_lock_free(player->lock);
    ff_lock_free(player->resident_lock);
    free(player);
}

/* Rejects a device on which kernels of the file would be code that reaches this process: a CPU, or
 * a GPU that reads and writes any memory of the host. */
static ff_status check_isolation(const ff_player *player, ff_error *error) {
    uint64_t capabilities = 0;
    player->cl.GetDeviceInfo(player->device->device, CL_DEVICE_SVM_CAPABILITIES,
                             sizeof capabilities, &capabilities, NULL);
    if (strcmp(player->device->facts.kind, "cpu") != 0 &&
        !(capabilities & CL_DEVICE_SVM_FINE_GRAIN_SYSTEM)) {
        return FF_OK;
    }
    return ff_fail(error, FF_PLAN,
                   "the kernels of the file would run on %s as code that reaches all memory of "
                   "this process; choose a GPU, or pass the trust \"all\" if you made the file",
                   player->device->facts.name);
}

/* Opens a player for a file, which it closes on failure. */
static ff_player *open_player(ff_container file, const char *device, ff_trust trust,
                              ff_error *error) {
    ff_player *player = calloc(1, sizeof *player);
    ff_status status = FF_OK;
    if (player == NULL) {
        ff_container_close(&file);
        ff_no_memory(error);
        return NULL;
    }
    player->file = file;
    player->users = 1;
    player->trust = trust;
    player->lock = ff_lock_create();
    player->resident_lock = ff_lock_create();
    if (player->lock == NULL || player->resident_lock == NULL) status = ff_no_memory(error);
    if (status == FF_OK) status = ff_opencl_load(&player->cl, error);
    if (status == FF_OK) status = choose_device(player, device, error);
    if (status == FF_OK && trust == FF_TRUST_DATA) status = check_isolation(player, error);
    if (status == FF_OK) {
        status = ff_index_read(&player->index, &player->file, &player->device->facts, error);
        player->index.ignores_facts = trust == FF_TRUST_DATA;
    }
    if (status == FF_OK) status = make_context(player, error);
    if (status == FF_OK) return player;
    free_player(player);
    return NULL;
}

ff_player *ff_open(const char *path, const char *device, const char *trust, ff_error *error) {
    ff_container file;
    ff_trust level;
    if (ff_trust_read(&level, trust, error) != FF_OK ||
        ff_container_open(&file, path, error) != FF_OK) {
        return NULL;
    }
    if (level == FF_TRUST_SIGNED && ff_container_copy(&file, error) != FF_OK) return NULL;
    if (ff_trust_check(&file, level, trust, path, error) != FF_OK) {
        ff_container_close(&file);
        return NULL;
    }
    return open_player(file, device, level, error);
}

ff_player *ff_open_memory(const void *bytes, size_t size, const char *device, const char *trust,
                          ff_error *error) {
    ff_container file = {0};
    ff_trust level;
    if (ff_trust_read(&level, trust, error) != FF_OK ||
        ff_container_open_memory(&file, bytes, size, error) != FF_OK) {
        return NULL;
    }
    if (ff_trust_check(&file, level, trust, NULL, error) != FF_OK) {
        ff_container_close(&file);
        return NULL;
    }
    return open_player(file, device, level, error);
}

size_t ff_model_count(const ff_player *player) {
    return player->index.models->count;
}

const char *ff_model_name(const ff_player *player, size_t number) {
    return ff_index_model(&player->index, number);
}

const ff_device *ff_player_device(const ff_player *player) {
    return &player->device->facts;
}

void ff_close(ff_player *player) {
    size_t users_left;
    if (player == NULL) return;
    ff_lock_acquire(player->lock);
    users_left = --player->users;
    ff_lock_release(player->lock);
    if (users_left == 0) free_player(player);
}

/* Rejects a plan that depends on something the self-test found broken on this device. */
static ff_status check_self_test(const ff_model *model, ff_error *error) {
    const char *failures = ff_json_text(ff_index_fact(&model->player->index, "self_test"));
    int halves = strcmp(model->plan.precision, "fp32") != 0;
    if (failures == NULL ||
        !(strstr(failures, "floats") || strstr(failures, "bytes") || strstr(failures, "branches") ||
          (halves && strstr(failures, "halves")))) {
        return FF_OK;
    }
    return ff_fail(error, FF_DEVICE, "%s computes wrong results; its self-test failed for: %s",
                   model->player->device->facts.name, failures);
}

/* Loads a model; after a failure `ff_unload` releases what was created. */
static ff_status load(ff_model *model, const ff_options *options, ff_error *error) {
    ff_player *player = model->player;
    const ff_json_document *index = &player->index.document;
    double start = ff_seconds(), build_start;
    ff_status status = ff_index_choose(&player->index, options, &model->choice, error);
    const ff_json *needed;
    int64_t groups = 0;
    if (status == FF_OK) {
        status = ff_plan_read(&model->plan, &player->file, index, model->choice.row, error);
    }
    if (status != FF_OK) return status;
    model->name = ff_index_model(&player->index, model->choice.model);
    needed = ff_json_get(index, model->choice.row, "requirements");
    ff_json_integer(ff_json_get(index, needed, "resident_groups"), 0, INT64_MAX, &groups);
    model->resident = groups > 0;
    status = check_self_test(model, error);
    if (status != FF_OK) return status;
    build_start = ff_seconds();
    status = ff_program_load(model, options->cache, error);
    model->build_seconds = ff_seconds() - build_start;
    if (status == FF_OK) status = ff_memory_create(model, error);
    model->open_seconds = ff_seconds() - start;
    return status;
}

ff_model *ff_load(ff_player *player, const ff_options *options, ff_error *error) {
    static const ff_options any;
    ff_model *model = calloc(1, sizeof *model);
    ff_lock *lock = ff_lock_create();
    ff_status status;
    if (model == NULL || lock == NULL) {
        free(model);
        ff_lock_free(lock);
        ff_no_memory(error);
        return NULL;
    }
    model->lock = lock;
    model->player = player;
    ff_lock_acquire(player->lock);
    player->users++;
    status = load(model, options == NULL ? &any : options, error);
    ff_lock_release(player->lock);
    if (status == FF_OK) return model;
    ff_unload(model);
    return NULL;
}

void ff_unload(ff_model *model) {
    if (model == NULL) return;
    ff_memory_free(model);
    if (model->program != NULL) model->player->cl.ReleaseProgram(model->program);
    ff_plan_free(&model->plan);
    ff_lock_free(model->lock);
    ff_close(model->player);
    free(model);
}

ff_info ff_model_info(const ff_model *model) {
    const ff_json_document *index = &model->player->index.document;
    const char *made_for = ff_json_text(ff_json_get(index, model->choice.row, "device"));
    ff_info info = {0};
    info.name = model->name;
    info.precision = model->plan.precision;
    info.made_for = made_for == NULL ? "" : made_for;
    info.program = model->origin;
    info.number = model->choice.model;
    info.plan = model->choice.number;
    info.inputs = model->plan.input_count;
    info.outputs = model->plan.output_count;
    info.launches = model->plan.launch_count;
    for (size_t i = 0; i < info.launches; i++) info.stages += model->plan.launches[i].stages;
    for (size_t i = 0; i < model->plan.buffer_count; i++) {
        if (model->plan.buffers[i].kind < FF_HOST)
            info.device_bytes += model->plan.buffers[i].allocated;
    }
    info.open_seconds = model->open_seconds;
    info.build_seconds = model->build_seconds;
    return info;
}

const ff_tensor *ff_input(const ff_model *model, size_t number) {
    return number < model->plan.input_count ? &model->plan.inputs[number].tensor : NULL;
}

const ff_tensor *ff_output(const ff_model *model, size_t number) {
    return number < model->plan.output_count ? &model->plan.outputs[number].tensor : NULL;
}

static ff_status check_arrays(const ff_port *ports, size_t count, const void *const *arrays,
                              const char *what, ff_error *error) {
    for (size_t i = 0; i < count; i++) {
        if (ports[i].tensor.bytes > 0 && (arrays == NULL || arrays[i] == NULL)) {
            return ff_fail(error, FF_ARGUMENT, "no array was passed for the %s '%s'", what,
                           ports[i].tensor.name);
        }
    }
    return FF_OK;
}

/* Serializes runs of one model, and of all models whose work-groups wait for each other. */
static void lock_model(ff_model *model) {
    ff_lock_acquire(model->lock);
    if (model->resident) ff_lock_acquire(model->player->resident_lock);
}

static ff_status unlock_model(ff_model *model, ff_status status) {
    if (model->resident) ff_lock_release(model->player->resident_lock);
    ff_lock_release(model->lock);
    return status;
}

ff_status ff_run(ff_model *model, const void *const *inputs, void *const *outputs,
                 ff_error *error) {
    const ff_plan *plan = &model->plan;
    const void *const *targets = (const void *const *)outputs;
    ff_status status = check_arrays(plan->inputs, plan->input_count, inputs, "input", error);
    if (status == FF_OK) {
        status = check_arrays(plan->outputs, plan->output_count, targets, "output", error);
    }
    if (status != FF_OK) return status;
    lock_model(model);
    return unlock_model(model, ff_play(model, inputs, outputs, error));
}

ff_status ff_replay(ff_model *model, ff_error *error) {
    lock_model(model);
    return unlock_model(model, ff_play_replay(model, error));
}

ff_status ff_reset(ff_model *model, ff_error *error) {
    lock_model(model);
    return unlock_model(model, ff_play_reset(model, error));
}

ff_status ff_profile(ff_model *model, const void *const *inputs, size_t runs, ff_launch *launches,
                     double *span, ff_error *error) {
    const ff_plan *plan = &model->plan;
    ff_status status = check_arrays(plan->inputs, plan->input_count, inputs, "input", error);
    double shortest;
    if (status != FF_OK) return status;
    for (size_t i = 0; i < plan->launch_count; i++) {
        launches[i].entry = plan->launches[i].entry;
        launches[i].title = plan->launches[i].title;
        launches[i].node = plan->launches[i].node;
    }
    lock_model(model);
    status = ff_play_profile(model, inputs, runs, launches, span == NULL ? &shortest : span, error);
    return unlock_model(model, status);
}

ff_status ff_save_binary(ff_model *model, const char *folder, char *path, size_t room,
                         ff_error *error) {
    ff_status status;
    ff_lock_acquire(model->lock);
    status = ff_program_save(model, folder, path, room, error);
    ff_lock_release(model->lock);
    return status;
}
