/* Plays models from prepared files of fourfold on OpenCL devices, without Python.
 *
 *     ff_error error;
 *     ff_player *player = ff_open("models.fourfold", NULL, &error);
 *     ff_model *model = player ? ff_load(player, NULL, &error) : NULL;
 *     if (model == NULL || ff_run(model, inputs, outputs, &error) != FF_OK) puts(error.text);
 *
 * Handles may be used by several threads at once; runs of one model take turns. Nothing is kept
 * outside of handles. The environment's LIBOPENCL_SO_PATH names the OpenCL library, if set. */
#ifndef FOURFOLD_H
#define FOURFOLD_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32) && defined(FF_SHARED)
#define FF_API __declspec(dllexport)
#elif defined(__GNUC__)
#define FF_API __attribute__((visibility("default")))
#else
#define FF_API
#endif

typedef enum ff_status {
    FF_OK,
    FF_ARGUMENT, /* what the caller passed does not fit */
    FF_FILE,     /* the file cannot be read, is damaged, or is of another format */
    FF_OPENCL,   /* there is no OpenCL library, or no such device */
    FF_PLAN,     /* the file has no plan that the device can play */
    FF_BUILD,    /* the driver does not build the kernels */
    FF_DEVICE,   /* the driver failed */
    FF_MEMORY    /* there is not enough memory, of the host or of the device */
} ff_status;

/* What went wrong, in one sentence. Every function that takes one also takes NULL. */
typedef struct ff_error {
    ff_status status;
    char text[1000];
} ff_error;

typedef enum ff_type {
    FF_F16,
    FF_F32,
    FF_F64,
    FF_I8,
    FF_I16,
    FF_I32,
    FF_I64,
    FF_U8,
    FF_U16,
    FF_U32,
    FF_U64,
    FF_BOOL,
    FF_C64,
    FF_C128 /* two floats, two doubles */
} ff_type;

/* An input or output: rows one after the other, as the model's own format has them. */
typedef struct ff_tensor {
    const char *name;
    const char *text; /* type and shape: "f32[1,224,224,3]" */
    ff_type type;
    size_t rank;
    const uint64_t *shape;
    size_t bytes, element_bytes;
    /* Where numbers are quantised, real = (stored - zero_points[i]) * scales[i]: one pair for all,
     * or one for each index along `axis`, which is -1 where there is one pair. */
    size_t scale_count, zero_point_count;
    const double *scales;
    const int64_t *zero_points;
    int axis;
    const char *pixels; /* what the bytes of a picture hold that this input takes, or "" */
} ff_tensor;

/* What a driver says of a device. */
typedef struct ff_device {
    char name[256], vendor[256], platform[256], driver[256], version[256];
    char language_version[16]; /* of OpenCL C: "3.0" */
    char uuid[33];
    const char *kind;       /* "gpu", "cpu" or "other" */
    const char *extensions; /* with blanks between them */
    uint64_t memory, max_allocation, max_work_group, local_memory, image_texels;
    uint32_t number, compute_units, alignment, address_bits;
    int unified_memory;
} ff_device;

/* Which plan of a model is wanted, where a file has several. NULL leaves a choice open. */
typedef struct ff_options {
    const char *model;                            /* its name; needed where a file has several */
    const char *precision;                        /* "fp32", "mixed" or "fp16" */
    const char *signature, *postprocess, *pixels; /* in the words of the file */
    const char *shapes; /* of inputs, as the file was prepared for: "image=1,320,320,3;mask=1,4" */
    const char *cache;  /* a folder for binaries of what had to be built; NULL keeps none */
} ff_options;

/* What was loaded. */
typedef struct ff_info {
    const char *name, *precision, *made_for; /* of the model; of the plan; the device it is for */
    const char *program; /* where the program came from: "file", "cache" or "text" */
    size_t number, plan; /* of the model in the file, of the plan among its plans */
    size_t inputs, outputs, launches, stages;
    uint64_t device_bytes;
    double open_seconds, build_seconds;
} ff_info;

typedef struct ff_launch {
    const char *entry, *title, *node;
    double seconds; /* the shortest time, by the device's clock */
} ff_launch;

typedef struct ff_player ff_player; /* a file on a device */
typedef struct ff_model ff_model;   /* one of its models, ready to run */

/* All OpenCL devices; `ff_free_devices` gives them back. */
FF_API ff_status ff_devices(ff_device **devices, size_t *count, ff_error *error);
FF_API void ff_free_devices(ff_device *devices, size_t count);

/* A prepared file, and the device that plays it: by its number, by a part of its name, "gpu" or
 * "cpu"; NULL is the first GPU, else the first device. NULL is given where that fails. */
FF_API ff_player *ff_open(const char *path, const char *device, ff_error *error);
/* The same of bytes in memory, such as an asset of an app, which must outlive the player. */
FF_API ff_player *ff_open_memory(const void *bytes, size_t size, const char *device,
                                 ff_error *error);
FF_API size_t ff_model_count(const ff_player *player);
FF_API const char *ff_model_name(const ff_player *player, size_t number);
FF_API const ff_device *ff_player_device(const ff_player *player);
/* Models that are still loaded keep what they need. */
FF_API void ff_close(ff_player *player);

/* A model of the file, ready to run. `options` may be NULL. */
FF_API ff_model *ff_load(ff_player *player, const ff_options *options, ff_error *error);
FF_API ff_info ff_model_info(const ff_model *model);
FF_API const ff_tensor *ff_input(const ff_model *model, size_t number); /* NULL beyond the last */
FF_API const ff_tensor *ff_output(const ff_model *model, size_t number);
/* Runs the model: as many bytes are read and written as the tensors have. */
FF_API ff_status ff_run(ff_model *model, const void *const *inputs, void *const *outputs,
                        ff_error *error);
/* Runs all launches once more on what the device already holds. */
FF_API ff_status ff_replay(ff_model *model, ff_error *error);
/* Sets variables of the model back to what they began with. */
FF_API ff_status ff_reset(ff_model *model, ff_error *error);
/* Times each launch over some runs, into as many `launches` as the model has; `span` is the
 * shortest time from the start of the first to the end of the last. Variables stay as they are. */
FF_API ff_status ff_profile(ff_model *model, const void *const *inputs, size_t runs,
                            ff_launch *launches, double *span, ff_error *error);
/* Writes the program's binary into a folder, best after a run, as an entry of a store; `path` gets
 * the file's name. */
FF_API ff_status ff_save_binary(ff_model *model, const char *folder, char *path, size_t room,
                                ff_error *error);
FF_API void ff_unload(ff_model *model);

FF_API const char *ff_status_name(ff_status status); /* "argument", "file", ... */
FF_API uint32_t ff_format(void);                     /* of the files that are read: 4 */

#ifdef __cplusplus
}
#endif
#endif
