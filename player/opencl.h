/* The part of OpenCL 1.2 that the player uses, loaded at run time without headers or linking. */
#ifndef FF_OPENCL_H
#define FF_OPENCL_H

#include "fourfold.h"

#ifdef _WIN32
#define FF_CALL __stdcall
#else
#define FF_CALL
#endif

/* Any handle of the driver. */
typedef struct ff_cl_object *ff_cl;

enum {
    CL_DEVICE_SVM_CAPABILITIES = 0x1053,
    CL_DEVICE_SVM_FINE_GRAIN_SYSTEM = 1 << 2,
    CL_OUT_OF_MEMORY_FIRST = -4,
    CL_OUT_OF_MEMORY_LAST = -6,
    CL_READ_WRITE = 1 << 0,
    CL_READ_ONLY = 1 << 2,
    CL_USE = 1 << 3,
    CL_HOST_MEMORY = 1 << 4,
    CL_COPY = 1 << 5,
    CL_PROFILING = 1 << 1,
    CL_MAP_BOTH = 3,
    CL_REGION = 0x1220,
    CL_IMAGE_OF_BUFFER = 0x10F6,
    CL_RGBA = 0x10B5,
    CL_HALF_FLOAT = 0x10DD,
    CL_FLOAT = 0x10DE,
    CL_STARTED = 0x1282,
    CL_ENDED = 0x1283,
    CL_BUILD_LOG = 0x1183,
    CL_BINARY_SIZES = 0x1165,
    CL_BINARIES = 0x1166,
    CL_CONTEXT_PLATFORM = 0x1084
};

typedef struct ff_cl_image_desc { /* cl_image_desc */
    uint32_t type;
    size_t width, other_sizes[5];
    uint32_t samples[2];
    ff_cl buffer;
} ff_cl_image_desc;

#define FF_CL_STATUS_FUNCTIONS(X)                                                               \
    X(GetPlatformIDs, (uint32_t, ff_cl *, uint32_t *))                                          \
    X(GetPlatformInfo, (ff_cl, uint32_t, size_t, void *, size_t *))                             \
    X(GetDeviceIDs, (ff_cl, uint64_t, uint32_t, ff_cl *, uint32_t *))                           \
    X(GetDeviceInfo, (ff_cl, uint32_t, size_t, void *, size_t *))                               \
    X(ReleaseContext, (ff_cl))                                                                  \
    X(ReleaseCommandQueue, (ff_cl))                                                             \
    X(ReleaseMemObject, (ff_cl))                                                                \
    X(ReleaseProgram, (ff_cl))                                                                  \
    X(ReleaseKernel, (ff_cl))                                                                   \
    X(ReleaseEvent, (ff_cl))                                                                    \
    X(BuildProgram, (ff_cl, uint32_t, const ff_cl *, const char *, void *, void *))             \
    X(GetProgramBuildInfo, (ff_cl, ff_cl, uint32_t, size_t, void *, size_t *))                  \
    X(GetProgramInfo, (ff_cl, uint32_t, size_t, void *, size_t *))                              \
    X(SetKernelArg, (ff_cl, uint32_t, size_t, const void *))                                    \
    X(EnqueueNDRangeKernel, (ff_cl, ff_cl, uint32_t, const size_t *, const size_t *,            \
                             const size_t *, uint32_t, const ff_cl *, ff_cl *))                 \
    X(EnqueueWriteBuffer,                                                                       \
      (ff_cl, ff_cl, uint32_t, size_t, size_t, const void *, uint32_t, const ff_cl *, ff_cl *)) \
    X(EnqueueReadBuffer,                                                                        \
      (ff_cl, ff_cl, uint32_t, size_t, size_t, void *, uint32_t, const ff_cl *, ff_cl *))       \
    X(EnqueueUnmapMemObject, (ff_cl, ff_cl, void *, uint32_t, const ff_cl *, ff_cl *))          \
    X(Flush, (ff_cl))                                                                           \
    X(Finish, (ff_cl))                                                                          \
    X(GetEventProfilingInfo, (ff_cl, uint32_t, size_t, void *, size_t *))

#define FF_CL_OBJECT_FUNCTIONS(X)                                                               \
    X(CreateContext, (const intptr_t *, uint32_t, const ff_cl *, void *, void *, int32_t *))    \
    X(CreateCommandQueue, (ff_cl, ff_cl, uint64_t, int32_t *))                                  \
    X(CreateBuffer, (ff_cl, uint64_t, size_t, const void *, int32_t *))                         \
    X(CreateSubBuffer, (ff_cl, uint64_t, uint32_t, const size_t *, int32_t *))                  \
    X(CreateImage,                                                                              \
      (ff_cl, uint64_t, const uint32_t *, const ff_cl_image_desc *, void *, int32_t *))         \
    X(CreateProgramWithSource, (ff_cl, uint32_t, const char **, const size_t *, int32_t *))     \
    X(CreateProgramWithBinary,                                                                  \
      (ff_cl, uint32_t, const ff_cl *, const size_t *, const uint8_t **, int32_t *, int32_t *)) \
    X(CreateKernel, (ff_cl, const char *, int32_t *))                                           \
    X(EnqueueMapBuffer, (ff_cl, ff_cl, uint32_t, uint64_t, size_t, size_t, uint32_t,            \
                         const ff_cl *, ff_cl *, int32_t *))

typedef struct ff_opencl {
#define FF_MEMBER(name, parameters) int32_t(FF_CALL *name) parameters;
    FF_CL_STATUS_FUNCTIONS(FF_MEMBER)
#undef FF_MEMBER
#define FF_MEMBER(name, parameters) ff_cl(FF_CALL *name) parameters;
    FF_CL_OBJECT_FUNCTIONS(FF_MEMBER)
#undef FF_MEMBER
} ff_opencl;

/* A device with its OpenCL handles. */
typedef struct ff_device_entry {
    ff_device facts;
    ff_cl platform, device;
} ff_device_entry;

/* Loads the library, which stays loaded: threads of drivers outlive their last object. */
ff_status ff_opencl_load(ff_opencl *cl, ff_error *error);
/* Lists all devices, in the order of platforms. */
ff_status ff_opencl_devices(const ff_opencl *cl, ff_device_entry **devices, size_t *count,
                            ff_error *error);
void ff_opencl_free_devices(ff_device_entry *devices, size_t count);

/* Reports a failed call: `action` says what the player was doing. */
ff_status ff_opencl_fail(ff_error *error, const char *action, int32_t status);

#endif
