/* Runs models from fourfold's prepared files on OpenCL devices, without Python.
 *
 *     ff_error error;
 *     ff_player *player = ff_open("models.fourfold", NULL, NULL, &error);
 *     ff_model *model = player ? ff_load(player, NULL, &error) : NULL;
 *     if (model == NULL || ff_run(model, inputs, outputs, &error) != FF_OK) puts(error.text);
 *
 * All functions are thread-safe; runs of one model are serialized. There is no global state. The
 * environment variable LIBOPENCL_SO_PATH sets the path of the OpenCL library. */
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
    FF_ARGUMENT, /* an argument is invalid */
    FF_FILE,     /* the file cannot be read, is damaged, or has another format */
    FF_OPENCL,   /* no OpenCL library or no matching device was found */
    FF_PLAN,     /* the file has no plan that can run on the device */
    FF_BUILD,    /* the driver cannot build the kernels */
    FF_DEVICE,   /* a call of the driver failed */
    FF_MEMORY    /* the host or the device is out of memory */
} ff_status;

/* Describes a failure. Every function that takes an error also accepts NULL. */
typedef struct ff_error {
    ff_status status; /* kind of failure */
    char text[1000];  /* cause, and fix where there is one */
} ff_error;

/* Element types. */
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
    FF_C64, /* complex: two 32-bit floats */
    FF_C128 /* complex: two 64-bit floats */
} ff_type;

/* An input or output: a dense row-major array in the layout of the model's own format. */
typedef struct ff_tensor {
    const char *name;      /* name of the tensor in the model */
    const char *text;      /* type and shape: "f32[1,224,224,3]" */
    ff_type type;          /* element type */
    size_t rank;           /* number of dimensions */
    const uint64_t *shape; /* `rank` sizes */
    size_t bytes;          /* size of the array */
    size_t element_bytes;  /* size of an element */
    /* Quantized tensors: real = (stored - zero_points[i]) * scales[i], with one pair for the whole
     * tensor, or one per index along `axis`. */
    size_t scale_count;         /* 0 if the tensor is not quantized */
    size_t zero_point_count;    /* number of `zero_points` */
    const double *scales;       /* `scale_count` scales */
    const int64_t *zero_points; /* `zero_point_count` zero points */
    int axis;                   /* dimension of per-channel scales; -1 if there is one pair */
    const char *pixels;         /* pixel format of an input that takes an image's bytes, or "" */
} ff_tensor;

/* Properties of a device, as its driver reports them. */
typedef struct ff_device {
    char name[256];            /* name of the device */
    char vendor[256];          /* name of the vendor */
    char platform[256];        /* name of the OpenCL platform */
    char driver[256];          /* version of the driver */
    char version[256];         /* version of OpenCL: "OpenCL 3.0 ..." */
    char language_version[16]; /* version of OpenCL C: "3.0" */
    char uuid[33];             /* hexadecimal UUID, or "" */
    const char *kind;          /* "gpu", "cpu" or "other" */
    const char *extensions;    /* names separated by spaces */
    uint64_t memory;           /* global memory, in bytes */
    uint64_t max_allocation;   /* size limit of a buffer, in bytes */
    uint64_t max_work_group;   /* size limit of a work-group, in work-items */
    uint64_t local_memory;     /* local memory of a work-group, in bytes */
    uint64_t image_texels;     /* size limit of an image of a buffer; 0 without image support */
    uint32_t number;           /* index among all devices */
    uint32_t compute_units;    /* number of compute units */
    uint32_t alignment;        /* required alignment of sub-buffers, in bytes */
    uint32_t address_bits;     /* size of a device address */
    int unified_memory;        /* 1 if the device shares memory with the host */
} ff_device;

/* Selects a plan where a file has several. A field that is NULL does not restrict the choice. */
typedef struct ff_options {
    const char *model;       /* name of the model; required if the file has several */
    const char *precision;   /* "fp32", "mixed" or "fp16" */
    const char *signature;   /* signature, as it was prepared */
    const char *postprocess; /* postprocessing option, as it was prepared */
    const char *pixels;      /* pixels option, as it was prepared */
    const char *shapes;      /* input shapes, as prepared: "image=1,320,320,3;mask=1,4" */
    const char *cache;       /* folder that caches program binaries; NULL disables the cache. Its
                                binaries are not used if other users can write to it */
} ff_options;

/* Describes a loaded model and its plan. */
typedef struct ff_info {
    const char *name;      /* name of the model */
    const char *precision; /* precision of the plan */
    const char *made_for;  /* name of the device that the plan was compiled for */
    const char *program;   /* origin of the program: "file", "cache" or "text" (its source) */
    size_t number;         /* index of the model in the file */
    size_t plan;           /* index of the plan in the file */
    size_t inputs;         /* number of inputs */
    size_t outputs;        /* number of outputs */
    size_t launches;       /* number of kernel launches per run */
    size_t stages;         /* number of kernels, including those inside one launch */
    uint64_t device_bytes; /* device memory of the model */
    double open_seconds;   /* time to load the model */
    double build_seconds;  /* part of that to load or build the program */
} ff_info;

/* The time of one kernel launch. */
typedef struct ff_launch {
    const char *entry; /* name of the kernel function */
    const char *title; /* readable name of the kernel */
    const char *node;  /* the operation of the model that it computes */
    double seconds;    /* shortest time, by the device's clock */
} ff_launch;

typedef struct ff_player ff_player; /* a prepared file, opened for a device */
typedef struct ff_model ff_model;   /* a loaded model */

/* Lists all OpenCL devices. Free the list with `ff_free_devices`. */
FF_API ff_status ff_devices(ff_device **devices, size_t *count, ff_error *error);
/* Frees a list of devices. */
FF_API void ff_free_devices(ff_device *devices, size_t count);

/* Opens a prepared file for a device: its number, a part of its name, "gpu" or "cpu"; NULL selects
 * the first GPU, else the first device. Returns NULL on failure.
 *
 * A prepared file holds code. `trust` says which files may bring it: NULL or "extension" (files
 * whose name ends in .fourfold), "data" (none: the file's binaries are not loaded, and its kernels
 * run only on GPUs), "signed:KEY" (files signed with this public Ed25519 key, 64 hexadecimal
 * digits; several are separated by commas) or "all". */
FF_API ff_player *ff_open(const char *path, const char *device, const char *trust, ff_error *error);
/* Opens a prepared file in memory, such as an asset of an app. The bytes must outlive the player.
 * They have no name, so `trust` must be "all", "signed:KEY" or "data". */
FF_API ff_player *ff_open_memory(const void *bytes, size_t size, const char *device,
                                 const char *trust, ff_error *error);
/* Returns the number of models in the file. */
FF_API size_t ff_model_count(const ff_player *player);
/* Returns the name of a model; NULL if `number` is out of range. */
FF_API const char *ff_model_name(const ff_player *player, size_t number);
/* Returns the device of a player. */
FF_API const ff_device *ff_player_device(const ff_player *player);
/* Closes a player. Models that are still loaded stay usable. */
FF_API void ff_close(ff_player *player);

/* Loads a model. `options` may be NULL. Returns NULL on failure. */
FF_API ff_model *ff_load(ff_player *player, const ff_options *options, ff_error *error);
/* Describes a loaded model. */
FF_API ff_info ff_model_info(const ff_model *model);
/* Returns an input; NULL if `number` is out of range. */
FF_API const ff_tensor *ff_input(const ff_model *model, size_t number);
/* Returns an output; NULL if `number` is out of range. */
FF_API const ff_tensor *ff_output(const ff_model *model, size_t number);
/* Runs the model on one array per input and output, each of the tensor's size in bytes. */
FF_API ff_status ff_run(ff_model *model, const void *const *inputs, void *const *outputs,
                        ff_error *error);
/* Runs all launches again on the data that is on the device. */
FF_API ff_status ff_replay(ff_model *model, ff_error *error);
/* Resets the variables of the model to their initial values. */
FF_API ff_status ff_reset(ff_model *model, ff_error *error);
/* Times each launch over some runs. `launches` has room for all launches of the model; `span` is
 * the shortest time from the start of the first to the end of the last. Keeps variables. */
FF_API ff_status ff_profile(ff_model *model, const void *const *inputs, size_t runs,
                            ff_launch *launches, double *span, ff_error *error);
/* Writes the program's binary to a folder as a cache entry, best after a run, and stores the path
 * of the file in `path`. */
FF_API ff_status ff_save_binary(ff_model *model, const char *folder, char *path, size_t capacity,
                                ff_error *error);
/* Unloads a model. */
FF_API void ff_unload(ff_model *model);

/* Returns the name of a status: "ok", "argument", "file", ... */
FF_API const char *ff_status_name(ff_status status);
/* Returns the format version of the files that the player reads. */
FF_API uint32_t ff_format(void);

#ifdef __cplusplus
}
#endif
#endif
