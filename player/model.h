/* What the handles of fourfold.h hold. */
#ifndef FF_MODEL_H
#define FF_MODEL_H

#include "choose.h"
#include "opencl.h"
#include "plan.h"
#include "platform.h"

struct ff_player {
    ff_opencl cl;
    ff_container file;
    ff_index index;
    ff_found_device *devices, *device;
    size_t device_count, users; /* the caller, and each model */
    ff_cl context;
    ff_lock *lock;  /* of the file's checksums, the number of users, and loading */
    ff_lock *alone; /* of kernels whose groups wait for each other: no two at once */
};

typedef struct ff_image {
    ff_cl image, window; /* the window is the part of the buffer that it shows, or NULL */
    uint32_t buffer, texel;
    uint64_t start;
} ff_image;

/* Where the host meets a buffer of the plan. */
typedef struct ff_meeting {
    uint8_t *host;  /* memory of the host, or NULL */
    ff_cl mapped;   /* whose memory that is: the buffer itself, or one to copy through */
    int direct;     /* whether kernels see that memory */
    int zero_copy;  /* whether they may read the caller's instead */
    int by_address; /* whether kernels get an address, and which one */
    uintptr_t address;
} ff_meeting;

struct ff_model {
    ff_player *player;
    ff_lock *lock;
    ff_plan plan;
    ff_choice choice;
    ff_cl program, queue;
    ff_cl *buffers, *kernels;
    ff_meeting *meetings; /* of each buffer */
    ff_image *images;
    size_t image_count;
    uint32_t *flags; /* of the host protocol, or NULL */
    size_t pieces;   /* of all inputs that kernels wait for */
    int resident;    /* whether groups wait for each other */
    const char *origin, *name;
    double open_seconds, build_seconds;
};

/* program.c: the program of a model's plan, from a binary of the file or of a folder, or built. */
ff_status ff_program_load(ff_model *model, const char *cache, ff_error *error);
ff_status ff_program_save(ff_model *model, const char *folder, char *path, size_t room,
                          ff_error *error);

/* memory.c: buffers on the device, what the host sees of them, and kernels that know them. */
ff_status ff_memory_make(ff_model *model, ff_error *error);
void ff_memory_free(ff_model *model);
/* Lets kernels find a buffer at an address of the host's. */
ff_status ff_memory_move(ff_model *model, uint32_t buffer, uintptr_t address, ff_error *error);
/* The bytes that a variable or a state begins with; `zeros` is memory to free, or NULL. */
const uint8_t *ff_memory_start(const ff_model *model, const ff_buffer *buffer, void **zeros);

/* play.c: runs. */
ff_status ff_play(ff_model *model, const void *const *inputs, void *const *outputs,
                  ff_error *error);
ff_status ff_play_again(ff_model *model, ff_error *error);
ff_status ff_play_timed(ff_model *model, const void *const *inputs, size_t runs,
                        ff_launch *launches, double *span, ff_error *error);
ff_status ff_play_reset(ff_model *model, ff_error *error);

#endif
