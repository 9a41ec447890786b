/* Contents of the handles that fourfold.h declares. */
#ifndef FF_MODEL_H
#define FF_MODEL_H

#include "choose.h"
#include "opencl.h"
#include "plan.h"
#include "platform.h"
#include "trust.h"

struct ff_player {
    ff_opencl cl;
    ff_container file;
    ff_index index;
    ff_device_entry *devices, *device;
    size_t device_count, users; /* reference count: the caller, and each loaded model */
    ff_cl context;
    ff_trust trust;
    ff_lock *lock;          /* guards checksum flags, the reference count, and loading */
    ff_lock *resident_lock; /* allows one kernel at a time whose work-groups wait for each other */
};

typedef struct ff_image {
    ff_cl image, window; /* the window is the sub-buffer that the image shows, or NULL */
    uint32_t buffer, texel;
    uint64_t start;
} ff_image;

/* Host access to a buffer of the plan. */
typedef struct ff_host_view {
    uint8_t *host;    /* mapped host memory, or NULL */
    ff_cl mapped;     /* the mapped buffer: the plan's own, or a staging buffer */
    int direct;       /* kernels access this memory without a copy */
    int zero_copy;    /* kernels may read the caller's array instead */
    int uses_address; /* kernels get `address` instead of a buffer */
    uintptr_t address;
} ff_host_view;

struct ff_model {
    ff_player *player;
    ff_lock *lock;
    ff_plan plan;
    ff_choice choice;
    ff_cl program, queue;
    ff_cl *buffers, *kernels;
    ff_host_view *host_views; /* one per buffer */
    ff_image *images;
    size_t image_count;
    uint32_t *flags; /* flags of the host protocol, or NULL */
    size_t pieces;   /* number of pieces of all inputs that kernels wait for */
    int resident;    /* work-groups wait for each other */
    const char *origin, *name;
    double open_seconds, build_seconds;
};

/* program.c: load a program from a binary of the file or of a cache folder, or build it. */
ff_status ff_program_load(ff_model *model, const char *cache, ff_error *error);
ff_status ff_program_save(ff_model *model, const char *folder, char *path, size_t capacity,
                          ff_error *error);

/* memory.c: device buffers, host access to them, and kernels with their arguments. */
ff_status ff_memory_create(ff_model *model, ff_error *error);
void ff_memory_free(ff_model *model);
/* Passes another host address of a buffer to the kernels. */
ff_status ff_memory_set_address(ff_model *model, uint32_t buffer, uintptr_t address,
                                ff_error *error);
/* Returns the initial bytes of a variable or a state; the caller frees `zeros` unless NULL. */
const uint8_t *ff_memory_initial_bytes(const ff_model *model, const ff_buffer *buffer,
                                       void **zeros);

/* play.c: run a model. */
ff_status ff_play(ff_model *model, const void *const *inputs, void *const *outputs,
                  ff_error *error);
ff_status ff_play_replay(ff_model *model, ff_error *error);
ff_status ff_play_profile(ff_model *model, const void *const *inputs, size_t runs,
                          ff_launch *launches, double *span, ff_error *error);
ff_status ff_play_reset(ff_model *model, ff_error *error);

#endif
