/* Device buffers of a plan, host access to them, and kernels with their arguments. */
#include <stdlib.h>
#include <string.h>

#include "model.h"

enum { PIECE_BYTES = 4096 };

const uint8_t *ff_memory_initial_bytes(const ff_model *model, const ff_buffer *buffer,
                                       void **zeros) {
    *zeros = NULL;
    if (buffer->start >= 0) return model->plan.constants.bytes + buffer->start;
    *zeros = calloc((size_t)buffer->bytes + 1, 1);
    return *zeros;
}

/* Returns whether kernels can read constants in the mapped file: on a CPU, if probing showed it. */
static int can_read_in_place(const ff_model *model, const uint8_t *from) {
    const ff_device *device = &model->player->device->facts;
    return strcmp(device->kind, "cpu") == 0 && (uintptr_t)from % device->alignment == 0 &&
           ff_index_is_true(&model->player->index, "host_pointers");
}

static ff_status create_buffer(ff_model *model, uint32_t number, ff_error *error) {
    const ff_buffer *buffer = &model->plan.buffers[number];
    const ff_device *device = &model->player->device->facts;
    uint64_t flags = CL_READ_WRITE;
    const uint8_t *from = NULL;
    void *zeros = NULL;
    int32_t status = 0;
    if (buffer->allocated > device->max_allocation || buffer->allocated > SIZE_MAX - 1) {
        return ff_fail(error, FF_MEMORY,
                       "a buffer needs %llu bytes, but %s allows at most %llu per allocation",
                       (unsigned long long)buffer->allocated, device->name,
                       (unsigned long long)device->max_allocation);
    }
    if (buffer->kind == FF_HOST || buffer->kind == FF_HOST_PROTOCOL) flags |= CL_HOST_MEMORY;
    if (buffer->kind == FF_CONSTANTS) {
        from = model->plan.constants.bytes + (buffer->start < 0 ? 0 : buffer->start);
        flags = CL_READ_ONLY | (can_read_in_place(model, from) ? CL_USE : CL_COPY);
    } else if (buffer->kind == FF_VARIABLE || buffer->kind == FF_STATE) {
        flags |= CL_COPY;
        from = ff_memory_initial_bytes(model, buffer, &zeros);
        if (from == NULL) return ff_no_memory(error);
    }
    if (buffer->bytes == 0) { /* nothing to copy */
        flags &= CL_READ_WRITE | CL_READ_ONLY;
        from = NULL;
    }
    model->buffers[number] = model->player->cl.CreateBuffer(
        model->player->context, flags, (size_t)(buffer->allocated ? buffer->allocated : 1), from,
        &status);
    free(zeros);
    if (status == 0) return FF_OK;
    model->buffers[number] = NULL;
    return ff_opencl_fail(error, "uploading the weights", status);
}

/* Maps a buffer until the model is unloaded: the buffer itself, or a staging buffer. */
static ff_status map(ff_model *model, uint32_t number, int is_staged, ff_error *error) {
    const ff_opencl *cl = &model->player->cl;
    ff_host_view *view = &model->host_views[number];
    size_t size = (size_t)model->plan.buffers[number].allocated;
    ff_cl result;
    int32_t status = 0;
    if (view->host != NULL || size == 0) return FF_OK;
    view->direct = !is_staged;
    view->mapped = model->buffers[number];
    if (is_staged) {
        view->mapped = cl->CreateBuffer(model->player->context, CL_READ_WRITE | CL_HOST_MEMORY,
                                        size, NULL, &status);
        if (status != 0) {
            view->mapped = NULL;
            return ff_opencl_fail(error, "allocating host memory", status);
        }
    }
    result = cl->EnqueueMapBuffer(model->queue, view->mapped, 1, CL_MAP_BOTH, 0, size, 0, NULL,
                                  NULL, &status);
    if (status != 0) return ff_opencl_fail(error, "mapping host memory", status);
    view->host = (uint8_t *)result;
    return FF_OK;
}

/* Returns whether offsets of pointers are in bytes, as in persistent kernels. */
static int has_byte_offsets(const ff_plan *plan) {
    for (size_t i = 0; i < plan->launch_count; i++) {
        if (plan->launches[i].stages < 2) return 0;
    }
    return 1;
}

static int is_port(const ff_port *ports, size_t count, uint32_t buffer) {
    for (size_t i = 0; i < count; i++) {
        if (ports[i].buffer == buffer) return 1;
    }
    return 0;
}

/* Sets up host access to a port: memory that kernels access directly, pinned staging memory, or
 * plain copies of the driver. The first two require facts probed on this device. */
static ff_status open_view(ff_model *model, uint32_t number, ff_error *error) {
    const ff_plan *plan = &model->plan;
    const ff_index *index = &model->player->index;
    const ff_device *device = &model->player->device->facts;
    ff_host_view *view = &model->host_views[number];
    ff_buffer_kind kind = plan->buffers[number].kind;
    const char *self_test = ff_json_text(ff_index_fact(index, "self_test"));
    int input = is_port(plan->inputs, plan->input_count, number);
    int output = is_port(plan->outputs, plan->output_count, number);
    int host = kind == FF_HOST || kind == FF_HOST_PROTOCOL;
    int cpu = strcmp(device->kind, "cpu") == 0 && ff_index_is_true(index, "persistent_mapping");
    int discrete = strcmp(device->kind, "gpu") == 0 && !device->unified_memory;
    int staged = discrete && self_test != NULL && strstr(self_test, "staging") == NULL;
    ff_status status = FF_OK;
    if (kind != FF_HOST_PROTOCOL && !input && !output) return FF_OK;
    if (host || cpu || staged) status = map(model, number, !host && !cpu, error);
    if (status != FF_OK) return status;
    view->zero_copy = kind == FF_INPUT && cpu && input && !output && view->host != NULL &&
                      ff_index_is_true(index, "host_pointers") && has_byte_offsets(plan);
    view->uses_address = host || view->zero_copy;
    view->address = (uintptr_t)view->host;
    if (kind == FF_HOST_PROTOCOL) model->flags = (uint32_t *)(void *)view->host;
    return FF_OK;
}

static ff_status open_views(ff_model *model, ff_error *error) {
    ff_status status = FF_OK;
    for (uint32_t i = 0; status == FF_OK && i < model->plan.buffer_count; i++) {
        status = open_view(model, i, error);
    }
    for (size_t i = 0; i < model->plan.input_count; i++) {
        const ff_port *port = &model->plan.inputs[i];
        if (model->plan.buffers[port->buffer].kind != FF_HOST) continue;
        model->pieces += (port->tensor.bytes + PIECE_BYTES - 1) / PIECE_BYTES;
    }
    if (status == FF_OK && model->flags != NULL) {
        memset(model->flags, 0, 192);
        FF_STORE(model->flags, (uint32_t)model->pieces); /* a kernel that runs now does not wait */
    }
    return status;
}

/* Finds or creates an image with the texels that a kernel reads, and how many of them to skip. */
static ff_status find_image(ff_model *model, const ff_argument *use, ff_cl *result,
                            int32_t *skipped_texels, ff_error *error) {
    const ff_opencl *cl = &model->player->cl;
    const ff_buffer *buffer = &model->plan.buffers[use->number];
    uint64_t first_texel = use->offset / 4, start = 0,
             alignment = model->player->device->facts.alignment;
    int64_t max_texels = 0;
    ff_image *image = model->images;
    size_t region[2];
    int32_t status = 0;
    uint32_t format[2] = {CL_RGBA, use->texel == 8 ? CL_HALF_FLOAT : CL_FLOAT};
    ff_cl_image_desc shape = {CL_IMAGE_OF_BUFFER, 0, {0}, {0}, NULL};
    ff_json_integer(ff_index_fact(&model->player->index, "image_texels"), 0, INT64_MAX,
                    &max_texels);
    if (first_texel + use->texels > (uint64_t)max_texels) {
        start = first_texel * use->texel / alignment * alignment;
    }
    *skipped_texels = (int32_t)(first_texel - start / use->texel);
    while (image < model->images + model->image_count) {
        if (image->buffer == (uint32_t)use->number && image->start == start &&
            image->texel == use->texel) {
            *result = image->image;
            return FF_OK;
        }
        image++;
    }
    shape.width = (size_t)((buffer->bytes - start) / use->texel);
    if (shape.width > (uint64_t)max_texels) shape.width = (size_t)max_texels;
    shape.buffer = model->buffers[use->number];
    memset(image, 0, sizeof *image);
    if (start > 0) {
        region[0] = (size_t)start;
        region[1] = shape.width * use->texel;
        image->window = cl->CreateSubBuffer(shape.buffer, 0, CL_REGION, region, &status);
        shape.buffer = image->window;
    }
    if (status == 0) {
        image->image =
            cl->CreateImage(model->player->context, CL_READ_ONLY, format, &shape, NULL, &status);
        image->buffer = (uint32_t)use->number;
        image->texel = use->texel;
        image->start = start;
        model->image_count++;
    }
    *result = image->image;
    return status == 0 ? FF_OK : ff_opencl_fail(error, "creating an image of weights", status);
}

/* Sets a pointer: a buffer and an offset, or NULL and a host address as the offset. */
static int32_t set_pointer(const ff_model *model, ff_cl kernel, uint32_t position,
                           const ff_argument *use) {
    const ff_host_view *view = &model->host_views[use->number];
    ff_cl memory = view->uses_address ? NULL : model->buffers[use->number];
    int64_t step = (int64_t)use->offset;
    int32_t status;
    if (view->uses_address) step += (int64_t)view->address;
    status = model->player->cl.SetKernelArg(kernel, position, sizeof memory, &memory);
    if (status != 0) return status;
    return model->player->cl.SetKernelArg(kernel, position + 1, sizeof step, &step);
}

static ff_status set_argument(ff_model *model, ff_cl kernel, uint32_t *position,
                              const ff_argument *use, ff_error *error) {
    const ff_opencl *cl = &model->player->cl;
    ff_status result;
    ff_cl image;
    int32_t skipped_texels, status;
    if (!use->is_buffer) {
        status = cl->SetKernelArg(kernel, (*position)++, sizeof use->number, &use->number);
    } else if (use->texels == 0) {
        status = set_pointer(model, kernel, *position, use);
        *position += 2;
    } else {
        result = find_image(model, use, &image, &skipped_texels, error);
        if (result != FF_OK) return result;
        status = cl->SetKernelArg(kernel, (*position)++, sizeof image, &image);
        if (status == 0)
            status =
                cl->SetKernelArg(kernel, (*position)++, sizeof skipped_texels, &skipped_texels);
    }
    return status == 0 ? FF_OK : ff_opencl_fail(error, "setting kernel arguments", status);
}

/* Creates a kernel object for one launch, and sets all of its arguments. */
static ff_status bind_kernel(ff_model *model, size_t number, ff_error *error) {
    const ff_plan_launch *launch = &model->plan.launches[number];
    uint32_t position = 0;
    int32_t code = 0;
    ff_status status = FF_OK;
    model->kernels[number] = model->player->cl.CreateKernel(model->program, launch->entry, &code);
    if (code != 0) {
        model->kernels[number] = NULL;
        return ff_opencl_fail(error, "creating a kernel", code);
    }
    for (size_t i = 0; status == FF_OK && i < launch->argument_count; i++) {
        const ff_argument *use = &launch->arguments[i];
        status = set_argument(model, model->kernels[number], &position, use, error);
    }
    return status;
}

ff_status ff_memory_set_address(ff_model *model, uint32_t buffer, uintptr_t address,
                                ff_error *error) {
    int32_t status = 0;
    if (model->host_views[buffer].address == address) return FF_OK;
    model->host_views[buffer].address = address;
    for (size_t i = 0; i < model->plan.launch_count; i++) {
        const ff_plan_launch *launch = &model->plan.launches[i];
        uint32_t position = 0;
        for (size_t j = 0; status == 0 && j < launch->argument_count; j++) {
            const ff_argument *use = &launch->arguments[j];
            if (use->is_buffer && (uint32_t)use->number == buffer && use->texels == 0) {
                status = set_pointer(model, model->kernels[i], position, use);
            }
            position += 1 + (uint32_t)use->is_buffer;
        }
    }
    return status == 0 ? FF_OK : ff_opencl_fail(error, "setting the address of an input", status);
}

ff_status ff_memory_create(ff_model *model, ff_error *error) {
    const ff_plan *plan = &model->plan;
    ff_status status = FF_OK;
    int32_t code = 0;
    model->buffers = calloc(plan->buffer_count + 1, sizeof *model->buffers);
    model->host_views = calloc(plan->buffer_count + 1, sizeof *model->host_views);
    model->kernels = calloc(plan->launch_count + 1, sizeof *model->kernels);
    model->images = calloc(plan->arguments_used + 1, sizeof *model->images);
    if (!model->buffers || !model->host_views || !model->kernels || !model->images) {
        return ff_no_memory(error);
    }
    model->queue = model->player->cl.CreateCommandQueue(model->player->context,
                                                        model->player->device->device, 0, &code);
    if (code != 0) {
        model->queue = NULL;
        return ff_opencl_fail(error, "creating a queue", code);
    }
    for (uint32_t i = 0; status == FF_OK && i < plan->buffer_count; i++) {
        status = create_buffer(model, i, error);
    }
    if (status == FF_OK) status = open_views(model, error);
    for (size_t i = 0; status == FF_OK && i < plan->launch_count; i++) {
        status = bind_kernel(model, i, error);
    }
    return status;
}

void ff_memory_free(ff_model *model) {
    const ff_opencl *cl = &model->player->cl;
    for (size_t i = 0; model->kernels != NULL && i < model->plan.launch_count; i++) {
        if (model->kernels[i] != NULL) cl->ReleaseKernel(model->kernels[i]);
    }
    for (size_t i = 0; model->host_views != NULL && i < model->plan.buffer_count; i++) {
        ff_host_view *view = &model->host_views[i];
        if (view->host != NULL) {
            cl->EnqueueUnmapMemObject(model->queue, view->mapped, view->host, 0, NULL, NULL);
        }
    }
    if (model->queue != NULL) cl->Finish(model->queue);
    for (size_t i = 0; i < model->image_count; i++) {
        if (model->images[i].image != NULL) cl->ReleaseMemObject(model->images[i].image);
        if (model->images[i].window != NULL) cl->ReleaseMemObject(model->images[i].window);
    }
    for (size_t i = 0; model->host_views != NULL && i < model->plan.buffer_count; i++) {
        ff_cl own = model->buffers[i], is_staged = model->host_views[i].mapped;
        if (is_staged != NULL && is_staged != own) cl->ReleaseMemObject(is_staged);
        if (own != NULL) cl->ReleaseMemObject(own);
    }
    if (model->queue != NULL) cl->ReleaseCommandQueue(model->queue);
    free(model->buffers);
    free(model->host_views);
    free(model->kernels);
    free(model->images);
}
