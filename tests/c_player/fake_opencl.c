/* A fake OpenCL driver for tests: aborts on invalid calls of the player.
 *
 * Commands run when the player waits for them, so that use of freed memory is detected. Environment
 * variables configure the device, and the call that fails:
 *   FAKE_KIND=gpu|cpu  FAKE_UNIFIED=1  FAKE_FAIL=index of a call  FAKE_LATE=1  FAKE_BUILD=fails
 *   FAKE_TEXELS=image size limit  FAKE_PLATFORM=name  FAKE_DIES=1 (crash when loading a binary) */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "opencl.h"

enum { MAX_ARGUMENTS = 64, READY = 0, DONE = 16, LATE = 32 };

struct ff_cl_object {
    int users;
    struct ff_cl_object *parent; /* kept alive by this object */
    uint8_t *bytes;
    size_t size, start;
    char *text;
    int mapped, is_binary, is_used;
    struct {
        ff_cl memory;
        int64_t number;
        size_t size;
    } arguments[MAX_ARGUMENTS];
    struct command *first, *last;
};

typedef struct command {
    enum { WRITE, READ, LAUNCH } what;
    ff_cl object;
    size_t start, size;
    void *host;
    struct ff_cl_object kernel; /* copy at the time of the launch */
    struct command *next;
} command;

static struct ff_cl_object platform = {1}, device = {1};
static int calls, wish, lates;

static void require(int right, const char *what) {
    if (right) return;
    fprintf(stderr, "invalid call of the player: %s\n", what);
    abort();
}

/* Returns whether this call has to fail; a new value of FAKE_FAIL restarts the count. */
static int fails(void) {
    const char *wanted = getenv("FAKE_FAIL");
    int number = wanted == NULL ? 0 : atoi(wanted);
    if (number != wish) calls = 0;
    wish = number;
    return ++calls == number;
}

static ff_cl make(ff_cl parent, int32_t *status) {
    ff_cl made;
    *status = fails() ? -5 : 0;
    if (*status != 0) return NULL;
    made = calloc(1, sizeof *made);
    made->users = 1;
    made->parent = parent;
    if (parent != NULL) __atomic_add_fetch(&parent->users, 1, __ATOMIC_SEQ_CST);
    return made;
}

static int32_t release(ff_cl object) {
    require(object != NULL && object->users > 0, "releases an object that it does not own");
    if (__atomic_sub_fetch(&object->users, 1, __ATOMIC_SEQ_CST) > 0) return 0;
    require(object->first == NULL, "releases a queue that is not empty");
    require(object->mapped == 0, "releases memory that is mapped");
    if (object->parent != NULL) release(object->parent);
    if (object->size > 0 && !object->is_used) free(object->bytes); /* sub-buffers have no size */
    free(object->text);
    free(object);
    return 0;
}

static int32_t answer(const void *from, size_t size, size_t room, void *to, size_t *told) {
    if (fails()) return -5;
    if (told != NULL) *told = size;
    if (to != NULL && room < size) return -30;
    if (to != NULL) memcpy(to, from, size);
    return 0;
}

static const char *setting(const char *name, const char *other) {
    const char *found = getenv(name);
    return found == NULL ? other : found;
}

int32_t clGetPlatformIDs(uint32_t room, ff_cl *found, uint32_t *count) {
    if (fails()) return -1001;
    if (count != NULL) *count = 1;
    if (found != NULL && room > 0) *found = &platform;
    return 0;
}

int32_t clGetPlatformInfo(ff_cl object, uint32_t what, size_t room, void *to, size_t *told) {
    const char *name = setting("FAKE_PLATFORM", "Fake Platform");
    require(object == &platform && what == 0x0902, "an unknown platform");
    return answer(name, strlen(name) + 1, room, to, told);
}

int32_t clGetDeviceIDs(ff_cl object, uint64_t kind, uint32_t room, ff_cl *found, uint32_t *count) {
    require(object == &platform && kind == 0xFFFFFFFFu, "an unknown platform");
    if (fails()) return -1;
    if (count != NULL) *count = 1;
    if (found != NULL && room > 0) *found = &device;
    return 0;
}

int32_t clGetDeviceInfo(ff_cl object, uint32_t what, size_t room, void *to, size_t *told) {
    const struct {
        uint32_t what;
        const char *text;
    } texts[] = {{0x102B, "  Fake GPU  "},
                 {0x102C, "Nobody"},
                 {0x102D, "1.0"},
                 {0x102F, "OpenCL 3.0 fake "},
                 {0x1030, "cl_khr_fp16 cl_khr_device_uuid  cl_khr_integer_dot_product "}};
    const struct {
        uint32_t what;
        uint64_t number;
        size_t size;
    } numbers[] = {{0x1000, strcmp(setting("FAKE_KIND", "gpu"), "gpu") ? 2 : 4, 8},
                   {0x1002, 4, 4},
                   {0x101F, 1u << 30, 8},
                   {0x1010, 1u << 26, 8},
                   {0x1004, 256, sizeof(size_t)},
                   {0x1023, 32768, 8},
                   {0x1019, 1024, 4},
                   {0x1035, getenv("FAKE_UNIFIED") != NULL, 4},
                   {0x100D, 64, 4},
                   {0x1016, 1, 4},
                   {0x1040, (uint64_t)atoi(setting("FAKE_TEXELS", "65536")), sizeof(size_t)}};
    require(object == &device, "an unknown device");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (texts[i].what != what) continue;
        return answer(texts[i].text, strlen(texts[i].text) + 1, room, to, told);
    }
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (numbers[i].what != what) continue;
        return answer(&numbers[i].number, numbers[i].size, room, to, told);
    }
    if (what == 0x106A) return answer("0123456789abcdef", 16, room, to, told);
    return -30;
}

ff_cl clCreateContext(const intptr_t *how, uint32_t count, const ff_cl *devices, void *call,
                      void *data, int32_t *status) {
    require(how[0] == 0x1084 && how[1] == (intptr_t)&platform && how[2] == 0, "another platform");
    require(count == 1 && devices[0] == &device && !call && !data, "an unknown device");
    return make(NULL, status);
}

ff_cl clCreateCommandQueue(ff_cl context, ff_cl own, uint64_t flags, int32_t *status) {
    require(own == &device && (flags & ~(uint64_t)CL_PROFILING) == 0, "an unknown queue");
    return make(context, status);
}

ff_cl clCreateBuffer(ff_cl context, uint64_t flags, size_t size, const void *from,
                     int32_t *status) {
    ff_cl made = size == 0 || size > 1u << 26 ? NULL : make(context, status);
    require(((flags & (CL_COPY | CL_USE)) != 0) == (from != NULL), "a copy without a source");
    require(!(flags & CL_USE) || (flags & CL_READ_ONLY), "a writable buffer in the mapped file");
    if (size == 0 || size > 1u << 26) *status = -61;
    if (made == NULL) return NULL;
    made->size = size;
    made->is_used = (flags & CL_USE) != 0;
    made->bytes = made->is_used ? (uint8_t *)(uintptr_t)from : malloc(size);
    if (from != NULL) memmove(made->bytes, from, made->is_used ? 0 : size);
    return made;
}

ff_cl clCreateSubBuffer(ff_cl buffer, uint64_t flags, uint32_t kind, const size_t *region,
                        int32_t *status) {
    ff_cl made;
    require(flags == 0 && kind == CL_REGION && buffer->start == 0, "an invalid sub-buffer");
    require(region[1] > 0 && region[0] + region[1] <= buffer->size,
            "a sub-buffer beyond its buffer");
    require(region[0] % 128 == 0, "a misaligned sub-buffer");
    made = make(buffer, status);
    if (made == NULL) return NULL;
    made->bytes = buffer->bytes + region[0];
    made->start = region[0];
    return made;
}

ff_cl clCreateImage(ff_cl context, uint64_t flags, const uint32_t *form,
                    const ff_cl_image_desc *shape, void *from, int32_t *status) {
    size_t texel = form[1] == CL_HALF_FLOAT ? 8 : 16, room = shape->buffer->size;
    require(flags == CL_READ_ONLY && !from && form[0] == CL_RGBA, "an unknown image");
    require(context != NULL && shape->type == CL_IMAGE_OF_BUFFER, "an unknown image");
    require(shape->width > 0 && shape->width <= (size_t)atoi(setting("FAKE_TEXELS", "65536")),
            "an image that is too long");
    if (shape->buffer->parent != NULL && shape->buffer->start > 0) {
        room = shape->buffer->parent->size - shape->buffer->start;
    }
    require(shape->width * texel <= room, "an image beyond its buffer");
    return make(shape->buffer, status);
}

static ff_cl make_program(ff_cl context, const void *text, size_t size, int is_binary,
                          int32_t *status) {
    ff_cl made = make(context, status);
    if (made == NULL) return NULL;
    made->text = calloc(size + 1, 1);
    memcpy(made->text, text, size);
    made->is_binary = is_binary;
    return made;
}

ff_cl clCreateProgramWithSource(ff_cl context, uint32_t count, const char **texts,
                                const size_t *sizes, int32_t *status) {
    require(count == 1, "several sources");
    return make_program(context, texts[0], sizes[0], 0, status);
}

ff_cl clCreateProgramWithBinary(ff_cl context, uint32_t count, const ff_cl *devices,
                                const size_t *sizes, const uint8_t **binaries, int32_t *taken,
                                int32_t *status) {
    require(count == 1 && devices[0] == &device, "an unknown device");
    if (getenv("FAKE_DIES") != NULL) _Exit(9);
    *taken = *status = sizes[0] < 4 || memcmp(binaries[0], "FAKE", 4) != 0 ? -42 : 0;
    return *status ? NULL : make_program(context, binaries[0], sizes[0], 1, status);
}

int32_t clBuildProgram(ff_cl program, uint32_t count, const ff_cl *devices, const char *options,
                       void *call, void *data) {
    require(count == 1 && devices[0] == &device && options && !call && !data, "an unknown build");
    if (!program->is_binary && getenv("FAKE_BUILD") != NULL) return -11;
    return fails() ? -5 : 0;
}

int32_t clGetProgramBuildInfo(ff_cl program, ff_cl own, uint32_t what, size_t room, void *to,
                              size_t *told) {
    static const char log[] = "\n  line 1: nothing is right\nmore\n";
    require(program->text != NULL && own == &device && what == CL_BUILD_LOG, "an unknown log");
    return answer(log, sizeof log, room, to, told);
}

int32_t clGetProgramInfo(ff_cl program, uint32_t what, size_t room, void *to, size_t *told) {
    size_t size = strlen(program->text) + 4;
    if (what == CL_BINARY_SIZES) return answer(&size, sizeof size, room, to, told);
    require(what == CL_BINARIES && room == sizeof(void *), "an unknown query");
    if (fails()) return -5;
    memcpy(*(char **)to, "FAKE", 4);
    memcpy(*(char **)to + 4, program->text, size - 4);
    return 0;
}

ff_cl clCreateKernel(ff_cl program, const char *entry, int32_t *status) {
    ff_cl made = make(program, status);
    if (made == NULL) return NULL;
    made->text = malloc(strlen(entry) + 1);
    strcpy(made->text, entry);
    return made;
}

int32_t clSetKernelArg(ff_cl kernel, uint32_t number, size_t size, const void *value) {
    require(size == 4 || size == 8, "an argument of an odd size");
    if (number >= MAX_ARGUMENTS) return -49;
    kernel->arguments[number].size = size;
    kernel->arguments[number].number = 0;
    memcpy(&kernel->arguments[number].number, value, size);
    memcpy(&kernel->arguments[number].memory, &kernel->arguments[number].number, sizeof(ff_cl));
    return fails() ? -5 : 0;
}

/* Returns the address of a pointer argument: a buffer or NULL, and an offset. */
static float *pointer(const struct ff_cl_object *kernel, int number, size_t step) {
    ff_cl memory = kernel->arguments[number].memory;
    int64_t offset = kernel->arguments[number + 1].number * (int64_t)step;
    if (memory == NULL) return (float *)(uintptr_t)offset;
    return (float *)(void *)(memory->bytes + offset);
}

/* Computes y = a * x + b; other entry names use byte offsets, and set the completion flag. */
static void line(const struct ff_cl_object *kernel) {
    size_t step = strcmp(kernel->text, "line") == 0 ? sizeof(float) : 1;
    const float *x = pointer(kernel, 0, step), *c = pointer(kernel, 2, step);
    float *y = pointer(kernel, 4, step);
    uint32_t *flags = NULL;
    if (strcmp(kernel->text, "line_flags") == 0) flags = (uint32_t *)(void *)pointer(kernel, 7, 1);
    for (int64_t i = 0; i < kernel->arguments[6].number; i++) y[i] = c[0] * x[i] + c[1];
    if (flags == NULL) return;
    require(flags[READY] > 0, "a kernel waits forever");
    flags[DONE] = 1;
    flags[LATE] = getenv("FAKE_LATE") != NULL && lates++ == 0;
    if (flags[LATE]) memset(y, 0, 4);
}

static void perform(command *one) {
    if (one->what == WRITE) memcpy(one->object->bytes + one->start, one->host, one->size);
    if (one->what == READ) memcpy(one->host, one->object->bytes + one->start, one->size);
    if (one->what == LAUNCH && strncmp(one->kernel.text, "line", 4) == 0) line(&one->kernel);
}

int32_t clFinish(ff_cl queue) {
    while (queue->first != NULL) {
        command *one = queue->first;
        queue->first = one->next;
        perform(one);
        free(one);
    }
    queue->last = NULL;
    return fails() ? -5 : 0;
}

static int32_t put_in(ff_cl queue, command one, int wait) {
    command *made;
    if (fails()) return -5;
    made = malloc(sizeof *made);
    *made = one;
    if (queue->last != NULL) queue->last->next = made;
    else queue->first = made;
    queue->last = made;
    return wait ? clFinish(queue) : 0;
}

int32_t clEnqueueNDRangeKernel(ff_cl queue, ff_cl kernel, uint32_t axes, const size_t *from,
                               const size_t *grid, const size_t *local, uint32_t count,
                               const ff_cl *before, ff_cl *event) {
    command one = {LAUNCH};
    int32_t status = 0;
    require(axes >= 1 && axes <= 3 && !from && !count && !before, "an unknown launch");
    for (uint32_t i = 0; i < axes; i++) {
        require(local[i] > 0 && grid[i] > 0 && grid[i] % local[i] == 0,
                "a grid that is not a multiple of the work-group");
    }
    one.kernel = *kernel;
    status = put_in(queue, one, 0);
    if (status == 0 && event != NULL) *event = make(NULL, &status);
    return status;
}

int32_t clEnqueueWriteBuffer(ff_cl queue, ff_cl buffer, uint32_t wait, size_t start, size_t size,
                             const void *from, uint32_t count, const ff_cl *before, ff_cl *event) {
    command one = {WRITE, buffer, start, size, (void *)(uintptr_t)from};
    require(size > 0 && start + size <= buffer->size && !count && !before && !event,
            "a write out of bounds");
    return put_in(queue, one, (int)wait);
}

int32_t clEnqueueReadBuffer(ff_cl queue, ff_cl buffer, uint32_t wait, size_t start, size_t size,
                            void *to, uint32_t count, const ff_cl *before, ff_cl *event) {
    command one = {READ, buffer, start, size, to};
    require(size > 0 && start + size <= buffer->size && !count && !before && !event,
            "a read out of bounds");
    return put_in(queue, one, (int)wait);
}

ff_cl clEnqueueMapBuffer(ff_cl queue, ff_cl buffer, uint32_t wait, uint64_t how, size_t start,
                         size_t size, uint32_t count, const ff_cl *before, ff_cl *event,
                         int32_t *status) {
    require(wait && how == CL_MAP_BOTH && start == 0 && size <= buffer->size,
            "a mapping out of bounds");
    require(queue && !count && !before && !event, "an unknown mapping");
    *status = fails() ? -12 : 0;
    if (*status != 0) return NULL;
    buffer->mapped++;
    return (ff_cl)(void *)buffer->bytes;
}

int32_t clEnqueueUnmapMemObject(ff_cl queue, ff_cl buffer, void *memory, uint32_t count,
                                const ff_cl *before, ff_cl *event) {
    require(queue && !count && !before && !event, "an unknown mapping");
    require(buffer->mapped > 0 && memory == buffer->bytes, "memory that is not mapped");
    buffer->mapped--;
    return 0;
}

int32_t clGetEventProfilingInfo(ff_cl event, uint32_t what, size_t room, void *to, size_t *told) {
    uint64_t time = what == CL_STARTED ? 1000 : 3000;
    require(event->users > 0, "an unknown event");
    return answer(&time, sizeof time, room, to, told);
}

int32_t clFlush(ff_cl queue) {
    require(queue->users > 0, "an unknown queue");
    return 0;
}

int32_t clReleaseContext(ff_cl object) {
    return release(object);
}
int32_t clReleaseCommandQueue(ff_cl object) {
    return release(object);
}
int32_t clReleaseMemObject(ff_cl object) {
    return release(object);
}
int32_t clReleaseProgram(ff_cl object) {
    return release(object);
}
int32_t clReleaseKernel(ff_cl object) {
    return release(object);
}
int32_t clReleaseEvent(ff_cl object) {
    return release(object);
}
