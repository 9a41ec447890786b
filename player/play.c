/* Runs of a model: inputs in, a flat list of launches, one wait, outputs out. */
#include <stdlib.h>
#include <string.h>

#include "model.h"

enum {
    ALIGNED = 16,    /* bytes that the address of an input is a multiple of, to be read there */
    STAGE = 1 << 20, /* bytes that are copied before the copy engine begins with them */
    PIECE = 4096,    /* bytes of an input that a waiting kernel is told of */
    CHUNK = 32 * PIECE,
    READY = 0,
    DONE = 16,
    LATE = 32,         /* flags of the host protocol */
    MOST_POLLS = 40000 /* of the flag that a kernel is done, then the driver waits */
};

static ff_status launch(ff_model *model, ff_error *error) {
    const ff_opencl *cl = &model->player->cl;
    for (size_t i = 0; i < model->plan.launch_count; i++) {
        const ff_plan_launch *one = &model->plan.launches[i];
        int32_t status = cl->EnqueueNDRangeKernel(model->queue, model->kernels[i], one->axes, NULL,
                                                  one->grid, one->local, 0, NULL, NULL);
        if (status != 0) return ff_opencl_fail(error, "launching a kernel", status);
    }
    return FF_OK;
}

static ff_status finish(ff_model *model, ff_error *error) {
    int32_t status = model->player->cl.Finish(model->queue);
    return status == 0 ? FF_OK : ff_opencl_fail(error, "running the model", status);
}

/* Brings an input to the device by the shortest way that is known to be right. */
static ff_status put(ff_model *model, const ff_port *port, const uint8_t *from, ff_error *error) {
    const ff_opencl *cl = &model->player->cl;
    ff_meeting *meeting = &model->meetings[port->buffer];
    ff_cl buffer = model->buffers[port->buffer];
    size_t size = port->tensor.bytes;
    int32_t status = 0;
    if (size == 0) return FF_OK;
    if (meeting->zero_copy) {
        int fits = (uintptr_t)from % ALIGNED == 0;
        uintptr_t place = (uintptr_t)(fits ? from : meeting->host);
        if (!fits) memcpy(meeting->host, from, size);
        return ff_memory_move(model, port->buffer, place, error);
    }
    if (meeting->direct) {
        memcpy(meeting->host, from, size);
        return FF_OK;
    }
    if (meeting->host == NULL) {
        status = cl->EnqueueWriteBuffer(model->queue, buffer, 0, 0, size, from, 0, NULL, NULL);
    }
    for (size_t start = 0; status == 0 && meeting->host != NULL && start < size; start += STAGE) {
        size_t part = size - start < STAGE ? size - start : STAGE;
        memcpy(meeting->host + start, from + start, part);
        status = cl->EnqueueWriteBuffer(model->queue, buffer, 0, start, part, meeting->host + start,
                                        0, NULL, NULL);
    }
    return status == 0 ? FF_OK : ff_opencl_fail(error, "copying an input", status);
}

/* Launches first, and copies inputs while kernels already wait for them, piece by piece. */
static void copy_meanwhile(ff_model *model, const void *const *inputs) {
    uint32_t ready = 0;
    for (size_t i = 0; i < model->plan.input_count; i++) {
        const ff_port *port = &model->plan.inputs[i];
        size_t size = port->tensor.bytes;
        if (model->plan.buffers[port->buffer].kind != FF_HOST) continue;
        for (size_t start = 0; start < size; start += CHUNK) {
            size_t part = size - start < CHUNK ? size - start : CHUNK;
            memcpy(model->meetings[port->buffer].host + start, (const uint8_t *)inputs[i] + start,
                   part);
            FF_STORE(&model->flags[READY], ready + (uint32_t)((start + part + PIECE - 1) / PIECE));
        }
        ready += (uint32_t)((size + PIECE - 1) / PIECE);
    }
}

/* A kernel that did not get its inputs in time says so, and is launched again. */
static ff_status run_by_flags(ff_model *model, const void *const *inputs, ff_error *error) {
    uint32_t late = 0;
    do {
        ff_status status;
        int polls = 0;
        FF_STORE(&model->flags[READY], 0);
        FF_STORE(&model->flags[DONE], 0);
        FF_STORE(&model->flags[LATE], 0);
        status = launch(model, error);
        if (status == FF_OK) model->player->cl.Flush(model->queue);
        if (status == FF_OK) copy_meanwhile(model, inputs);
        FF_STORE(&model->flags[READY], (uint32_t)model->pieces); /* none may wait for ever */
        while (status == FF_OK && FF_LOAD(&model->flags[DONE]) == 0 && polls < MOST_POLLS) polls++;
        if (status != FF_OK || polls == MOST_POLLS) {
            ff_status ended = finish(model, status == FF_OK ? error : NULL);
            if (status == FF_OK) status = ended;
        }
        if (status != FF_OK) return status;
        late = FF_LOAD(&model->flags[LATE]);
    } while (late != 0);
    return FF_OK;
}

static ff_status take(ff_model *model, void *const *outputs, ff_error *error) {
    const ff_opencl *cl = &model->player->cl;
    int queued = model->flags == NULL;
    ff_status status = FF_OK;
    for (size_t i = 0; i < model->plan.output_count; i++) {
        const ff_port *port = &model->plan.outputs[i];
        const ff_meeting *meeting = &model->meetings[port->buffer];
        void *to = meeting->host != NULL ? meeting->host : outputs[i];
        int32_t code;
        if (meeting->direct || port->tensor.bytes == 0) continue;
        queued = 1;
        code = cl->EnqueueReadBuffer(model->queue, model->buffers[port->buffer], 0, 0,
                                     port->tensor.bytes, to, 0, NULL, NULL);
        if (code != 0) return ff_opencl_fail(error, "copying an output", code);
    }
    if (queued) status = finish(model, error);
    for (size_t i = 0; status == FF_OK && i < model->plan.output_count; i++) {
        const ff_port *port = &model->plan.outputs[i];
        const uint8_t *host = model->meetings[port->buffer].host;
        if (host != NULL) memcpy(outputs[i], host, port->tensor.bytes);
    }
    return status;
}

static ff_status put_all(ff_model *model, const void *const *inputs, ff_error *error) {
    ff_status status = FF_OK;
    for (size_t i = 0; status == FF_OK && i < model->plan.input_count; i++) {
        status = put(model, &model->plan.inputs[i], inputs[i], error);
    }
    return status;
}

ff_status ff_play(ff_model *model, const void *const *inputs, void *const *outputs,
                  ff_error *error) {
    ff_status status;
    if (model->flags != NULL) {
        status = run_by_flags(model, inputs, error);
    } else {
        status = put_all(model, inputs, error);
        if (status == FF_OK) status = launch(model, error);
    }
    if (status == FF_OK) status = take(model, outputs, error);
    if (status != FF_OK) finish(model, NULL); /* the driver may still read the caller's arrays */
    return status;
}

/* Lets kernels read memory of their own: arrays of a run may be gone after it. */
static ff_status release_arrays(ff_model *model, ff_error *error) {
    ff_status status = FF_OK;
    for (uint32_t i = 0; status == FF_OK && i < model->plan.buffer_count; i++) {
        ff_meeting *meeting = &model->meetings[i];
        if (meeting->zero_copy) {
            status = ff_memory_move(model, i, (uintptr_t)meeting->host, error);
        }
    }
    return status;
}

ff_status ff_play_again(ff_model *model, ff_error *error) {
    ff_status status = release_arrays(model, error);
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
        from = ff_memory_start(model, buffer, &zeros);
        if (from == NULL) return ff_no_memory(error);
        status = model->player->cl.EnqueueWriteBuffer(model->queue, model->buffers[i], 1, 0,
                                                      (size_t)buffer->bytes, from, 0, NULL, NULL);
        free(zeros);
        if (status != 0) return ff_opencl_fail(error, "forgetting the state", status);
    }
    return FF_OK;
}

/* All variables one after the other, read from the device or written back. */
static int32_t move_variables(ff_model *model, ff_cl queue, uint8_t *saved, int back) {
    const ff_opencl *cl = &model->player->cl;
    int32_t status = 0;
    for (size_t i = 0; status == 0 && i < model->plan.buffer_count; i++) {
        size_t size = (size_t)model->plan.buffers[i].bytes;
        ff_cl buffer = model->buffers[i];
        if (model->plan.buffers[i].kind != FF_VARIABLE || size == 0) continue;
        status = back ? cl->EnqueueWriteBuffer(queue, buffer, 1, 0, size, saved, 0, NULL, NULL)
                      : cl->EnqueueReadBuffer(queue, buffer, 1, 0, size, saved, 0, NULL, NULL);
        saved += size;
    }
    return status;
}

static uint64_t clock_of(const ff_opencl *cl, ff_cl event, uint32_t what, int32_t *status) {
    uint64_t time = 0;
    if (*status == 0) *status = cl->GetEventProfilingInfo(event, what, sizeof time, &time, NULL);
    return time;
}

static int32_t time_once(ff_model *model, ff_cl queue, ff_cl *events, ff_launch *launches,
                         double *span) {
    const ff_opencl *cl = &model->player->cl;
    size_t count = model->plan.launch_count, begun = 0;
    uint64_t first = 0, last = 0;
    int32_t status = 0, ended;
    for (; status == 0 && begun < count; begun++) {
        const ff_plan_launch *one = &model->plan.launches[begun];
        status = cl->EnqueueNDRangeKernel(queue, model->kernels[begun], one->axes, NULL, one->grid,
                                          one->local, 0, NULL, &events[begun]);
        if (status != 0) break;
    }
    ended = cl->Finish(queue);
    if (status == 0) status = ended;
    for (size_t i = 0; i < begun; i++) {
        uint64_t start = clock_of(cl, events[i], CL_STARTED, &status);
        uint64_t end = clock_of(cl, events[i], CL_ENDED, &status);
        double seconds = 1e-9 * (double)(end - start);
        if (seconds < launches[i].seconds) launches[i].seconds = seconds;
        if (i == 0) first = start;
        last = end;
        cl->ReleaseEvent(events[i]);
    }
    if (1e-9 * (double)(last - first) < *span) *span = 1e-9 * (double)(last - first);
    return status;
}

ff_status ff_play_timed(ff_model *model, const void *const *inputs, size_t runs,
                        ff_launch *launches, double *span, ff_error *error) {
    const ff_opencl *cl = &model->player->cl;
    size_t bytes = 1;
    int32_t status = 0;
    ff_cl queue, *events = calloc(model->plan.launch_count + 1, sizeof *events);
    uint8_t *saved;
    ff_status put_in;
    for (size_t i = 0; i < model->plan.buffer_count; i++) {
        if (model->plan.buffers[i].kind == FF_VARIABLE)
            bytes += (size_t)model->plan.buffers[i].bytes;
    }
    saved = malloc(bytes);
    queue = cl->CreateCommandQueue(model->player->context, model->player->device->device,
                                   CL_PROFILING, &status);
    if (status != 0) queue = NULL;
    if (saved == NULL || events == NULL) status = CL_OUT_OF_MEMORY_LAST;
    put_in = status != 0 || model->flags != NULL ? FF_OK : put_all(model, inputs, error);
    if (put_in == FF_OK && status == 0) status = cl->Finish(model->queue);
    if (put_in == FF_OK && status == 0) {
        status = move_variables(model, queue, saved, 0);
        *span = 1e30;
        for (size_t i = 0; i < model->plan.launch_count; i++) launches[i].seconds = 1e30;
        while (status == 0 && runs-- > 0) status = time_once(model, queue, events, launches, span);
        if (status == 0) status = move_variables(model, queue, saved, 1);
    }
    if (queue != NULL) cl->ReleaseCommandQueue(queue);
    free(events);
    free(saved);
    if (put_in != FF_OK) return put_in;
    return status == 0 ? FF_OK : ff_opencl_fail(error, "timing kernels", status);
}
