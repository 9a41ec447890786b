/* Runs a model: writes inputs, enqueues all launches, waits once, reads outputs. */
#include <stdlib.h>
#include <string.h>

#include "model.h"

enum {
    INPUT_ALIGNMENT = 16,    /* in bytes, of arrays that kernels read in place */
    STAGING_BYTES = 1 << 20, /* copied to pinned memory before each upload */
    PIECE_BYTES = 4096,      /* unit in which the host reports its progress to a waiting kernel */
    CHUNK_BYTES = 32 * PIECE_BYTES,
    READY = 0,
    DONE = 16,
    LATE = 32,        /* indices of the flags of the host protocol */
    MAX_POLLS = 40000 /* of the flag DONE, then block in the driver instead of spinning */
};

static ff_status launch(ff_model *model, ff_error *error) {
    const ff_opencl *cl = &model->player->cl;
    for (size_t i = 0; i < model->plan.launch_count; i++) {
        const ff_plan_launch *step = &model->plan.launches[i];
        int32_t status = cl->EnqueueNDRangeKernel(model->queue, model->kernels[i], step->axes, NULL,
                                                  step->grid, step->local, 0, NULL, NULL);
        if (status != 0) return ff_opencl_fail(error, "launching a kernel", status);
    }
    return FF_OK;
}

static ff_status finish(ff_model *model, ff_error *error) {
    int32_t status = model->player->cl.Finish(model->queue);
    return status == 0 ? FF_OK : ff_opencl_fail(error, "running the model", status);
}

/* Writes an input to the device by the fastest path that probing showed to work. */
static ff_status write_input(ff_model *model, const ff_port *port, const uint8_t *from,
                             ff_error *error) {
    const ff_opencl *cl = &model->player->cl;
    ff_host_view *view = &model->host_views[port->buffer];
    ff_cl buffer = model->buffers[port->buffer];
    size_t size = port->tensor.bytes;
    int32_t status = 0;
    if (size == 0) return FF_OK;
    if (view->zero_copy) {
        int fits = (uintptr_t)from % INPUT_ALIGNMENT == 0;
        uintptr_t address = (uintptr_t)(fits ? from : view->host);
        if (!fits) memcpy(view->host, from, size);
        return ff_memory_set_address(model, port->buffer, address, error);
    }
    if (view->direct) {
        memcpy(view->host, from, size);
        return FF_OK;
    }
    if (view->host == NULL) {
        status = cl->EnqueueWriteBuffer(model->queue, buffer, 0, 0, size, from, 0, NULL, NULL);
    }
    for (size_t start = 0; status == 0 && view->host != NULL && start < size;
         start += STAGING_BYTES) {
        size_t part = size - start < STAGING_BYTES ? size - start : STAGING_BYTES;
        memcpy(view->host + start, from + start, part);
        status = cl->EnqueueWriteBuffer(model->queue, buffer, 0, start, part, view->host + start, 0,
                                        NULL, NULL);
    }
    return status == 0 ? FF_OK : ff_opencl_fail(error, "copying an input", status);
}

/* Copies inputs in pieces while kernels that were launched already wait for them. */
static void copy_while_running(ff_model *model, const void *const *inputs) {
    uint32_t ready = 0;
    for (size_t i = 0; i < model->plan.input_count; i++) {
        const ff_port *port = &model->plan.inputs[i];
        size_t size = port->tensor.bytes;
        if (model->plan.buffers[port->buffer].kind != FF_HOST) continue;
        for (size_t start = 0; start < size; start += CHUNK_BYTES) {
            size_t part = size - start < CHUNK_BYTES ? size - start : CHUNK_BYTES;
            memcpy(model->host_views[port->buffer].host + start, (const uint8_t *)inputs[i] + start,
                   part);
            FF_STORE(&model->flags[READY],
                     ready + (uint32_t)((start + part + PIECE_BYTES - 1) / PIECE_BYTES));
        }
        ready += (uint32_t)((size + PIECE_BYTES - 1) / PIECE_BYTES);
    }
}

/* Launches kernels that wait for their inputs, again if they set the flag LATE. */
static ff_status run_with_flags(ff_model *model, const void *const *inputs, ff_error *error) {
    uint32_t is_late = 0;
    do {
        ff_status status;
        int polls = 0;
        FF_STORE(&model->flags[READY], 0);
        FF_STORE(&model->flags[DONE], 0);
        FF_STORE(&model->flags[LATE], 0);
        status = launch(model, error);
        if (status == FF_OK) model->player->cl.Flush(model->queue);
        if (status == FF_OK) copy_while_running(model, inputs);
        FF_STORE(&model->flags[READY],
                 (uint32_t)model->pieces); /* so that no kernel waits forever */
        while (status == FF_OK && FF_LOAD(&model->flags[DONE]) == 0 && polls < MAX_POLLS) polls++;
        if (status != FF_OK || polls == MAX_POLLS) {
            ff_status ended = finish(model, status == FF_OK ? error : NULL);
            if (status == FF_OK) status = ended;
        }
        if (status != FF_OK) return status;
        is_late = FF_LOAD(&model->flags[LATE]);
    } while (is_late != 0);
    return FF_OK;
}

static ff_status read_outputs(ff_model *model, void *const *outputs, ff_error *error) {
    const ff_opencl *cl = &model->player->cl;
    int queued = model->flags == NULL;
    ff_status status = FF_OK;
    for (size_t i = 0; i < model->plan.output_count; i++) {
        const ff_port *port = &model->plan.outputs[i];
        const ff_host_view *view = &model->host_views[port->buffer];
        void *to = view->host != NULL ? view->host : outputs[i];
        int32_t code;
        if (view->direct || port->tensor.bytes == 0) continue;
        queued = 1;
        code = cl->EnqueueReadBuffer(model->queue, model->buffers[port->buffer], 0, 0,
                                     port->tensor.bytes, to, 0, NULL, NULL);
        if (code != 0) return ff_opencl_fail(error, "copying an output", code);
    }
    if (queued) status = finish(model, error);
    for (size_t i = 0; status == FF_OK && i < model->plan.output_count; i++) {
        const ff_port *port = &model->plan.outputs[i];
        const uint8_t *host = model->host_views[port->buffer].host;
        if (host != NULL) memcpy(outputs[i], host, port->tensor.bytes);
    }
    return status;
}

/* Refuses numbers that kernels cannot use: indices out of range, or integers of more than 32 bits. */
static ff_status check_limits(const ff_model *model, const void *const *inputs, ff_error *error) {
    for (size_t i = 0; i < model->plan.input_count; i++) {
        const ff_port *port = &model->plan.inputs[i];
        size_t count = port->is_limited ? port->tensor.bytes / port->tensor.element_bytes : 0;
        for (size_t at = 0; at < count; at++) {
            int64_t number;
            if (port->tensor.type == FF_I64) {
                memcpy(&number, (const uint8_t *)inputs[i] + 8 * at, sizeof number);
            } else {
                int32_t narrow;
                memcpy(&narrow, (const uint8_t *)inputs[i] + 4 * at, sizeof narrow);
                number = narrow;
            }
            if (number < port->low || number > port->high) {
                return ff_fail(error, FF_ARGUMENT,
                               "input '%s' contains %lld, but the model takes numbers from %lld to "
                               "%lld; check the numbers, which may be indices",
                               port->tensor.name, (long long)number, (long long)port->low,
                               (long long)port->high);
            }
        }
    }
    return FF_OK;
}

static ff_status write_inputs(ff_model *model, const void *const *inputs, ff_error *error) {
    ff_status status = FF_OK;
    for (size_t i = 0; status == FF_OK && i < model->plan.input_count; i++) {
        status = write_input(model, &model->plan.inputs[i], inputs[i], error);
    }
    return status;
}

ff_status ff_play(ff_model *model, const void *const *inputs, void *const *outputs,
                  ff_error *error) {
    ff_status status = check_limits(model, inputs, error);
    if (status != FF_OK) return status;
    if (model->flags != NULL) {
        status = run_with_flags(model, inputs, error);
    } else {
        status = write_inputs(model, inputs, error);
        if (status == FF_OK) status = launch(model, error);
    }
    if (status == FF_OK) status = read_outputs(model, outputs, error);
    if (status != FF_OK) finish(model, NULL); /* the driver may still access the caller's arrays */
    return status;
}

/* Lets kernels read the model's own memory: the caller may have freed the arrays of a run. */
static ff_status use_own_memory(ff_model *model, ff_error *error) {
    ff_status status = FF_OK;
    for (uint32_t i = 0; status == FF_OK && i < model->plan.buffer_count; i++) {
        ff_host_view *view = &model->host_views[i];
        if (view->zero_copy) {
            status = ff_memory_set_address(model, i, (uintptr_t)view->host, error);
        }
    }
    return status;
}

ff_status ff_play_replay(ff_model *model, ff_error *error) {
    ff_status status = use_own_memory(model, error);
    if (status == FF_OK) status = launch(model, error);
    if (status == FF_OK) return finish(model, error);
    finish(model, NULL);
    return status;
}

ff_status ff_play_reset(ff_model *model, ff_error *error) {
    for (size_t i = 0; i < model->plan.buffer_count; i++) {
        const ff_buffer *buffer = &model->plan.buffers[i];
        const uint8_t *from;
        void *zeros;
        int32_t status;
        if (buffer->kind != FF_VARIABLE || buffer->bytes == 0) continue;
        from = ff_memory_initial_bytes(model, buffer, &zeros);
        if (from == NULL) return ff_no_memory(error);
        status = model->player->cl.EnqueueWriteBuffer(model->queue, model->buffers[i], 1, 0,
                                                      (size_t)buffer->bytes, from, 0, NULL, NULL);
        free(zeros);
        if (status != 0) return ff_opencl_fail(error, "resetting variables", status);
    }
    return FF_OK;
}

/* Reads all variables from the device, or writes them back. */
static int32_t copy_variables(ff_model *model, ff_cl queue, uint8_t *saved, int restore) {
    const ff_opencl *cl = &model->player->cl;
    int32_t status = 0;
    for (size_t i = 0; status == 0 && i < model->plan.buffer_count; i++) {
        size_t size = (size_t)model->plan.buffers[i].bytes;
        ff_cl buffer = model->buffers[i];
        if (model->plan.buffers[i].kind != FF_VARIABLE || size == 0) continue;
        status = restore ? cl->EnqueueWriteBuffer(queue, buffer, 1, 0, size, saved, 0, NULL, NULL)
                         : cl->EnqueueReadBuffer(queue, buffer, 1, 0, size, saved, 0, NULL, NULL);
        saved += size;
    }
    return status;
}

static uint64_t event_time(const ff_opencl *cl, ff_cl event, uint32_t what, int32_t *status) {
    uint64_t time = 0;
    if (*status == 0) *status = cl->GetEventProfilingInfo(event, what, sizeof time, &time, NULL);
    return time;
}

static int32_t time_once(ff_model *model, ff_cl queue, ff_cl *events, ff_launch *launches,
                         double *span) {
    const ff_opencl *cl = &model->player->cl;
    size_t count = model->plan.launch_count, launched = 0;
    uint64_t first = 0, last = 0;
    int32_t status = 0, ended;
    for (; status == 0 && launched < count; launched++) {
        const ff_plan_launch *step = &model->plan.launches[launched];
        status = cl->EnqueueNDRangeKernel(queue, model->kernels[launched], step->axes, NULL,
                                          step->grid, step->local, 0, NULL, &events[launched]);
        if (status != 0) break;
    }
    ended = cl->Finish(queue);
    if (status == 0) status = ended;
    for (size_t i = 0; i < launched; i++) {
        uint64_t start = event_time(cl, events[i], CL_STARTED, &status);
        uint64_t end = event_time(cl, events[i], CL_ENDED, &status);
        double seconds = 1e-9 * (double)(end - start);
        if (seconds < launches[i].seconds) launches[i].seconds = seconds;
        if (i == 0) first = start;
        last = end;
        cl->ReleaseEvent(events[i]);
    }
    if (1e-9 * (double)(last - first) < *span) *span = 1e-9 * (double)(last - first);
    return status;
}

ff_status ff_play_profile(ff_model *model, const void *const *inputs, size_t runs,
                          ff_launch *launches, double *span, ff_error *error) {
    const ff_opencl *cl = &model->player->cl;
    size_t bytes = 1;
    int32_t status = 0;
    ff_cl queue, *events = calloc(model->plan.launch_count + 1, sizeof *events);
    uint8_t *saved;
    ff_status input_status;
    for (size_t i = 0; i < model->plan.buffer_count; i++) {
        if (model->plan.buffers[i].kind == FF_VARIABLE)
            bytes += (size_t)model->plan.buffers[i].bytes;
    }
    saved = malloc(bytes);
    queue = cl->CreateCommandQueue(model->player->context, model->player->device->device,
                                   CL_PROFILING, &status);
    if (status != 0) queue = NULL;
    if (saved == NULL || events == NULL) status = CL_OUT_OF_MEMORY_LAST;
    input_status = status != 0 || model->flags != NULL ? FF_OK : write_inputs(model, inputs, error);
    if (input_status == FF_OK && status == 0) status = cl->Finish(model->queue);
    if (input_status == FF_OK && status == 0) {
        status = copy_variables(model, queue, saved, 0);
        *span = 1e30;
        for (size_t i = 0; i < model->plan.launch_count; i++) launches[i].seconds = 1e30;
        while (status == 0 && runs-- > 0) status = time_once(model, queue, events, launches, span);
        if (status == 0) status = copy_variables(model, queue, saved, 1);
    }
    if (queue != NULL) cl->ReleaseCommandQueue(queue);
    free(events);
    free(saved);
    if (input_status != FF_OK) return input_status;
    return status == 0 ? FF_OK : ff_opencl_fail(error, "timing kernels", status);
}
