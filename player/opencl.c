/* Finds the OpenCL library and the devices of its drivers. */
#include "opencl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "container.h"
#include "platform.h"

#if UINTPTR_MAX > 0xFFFFFFFFu
#define LIB "lib64"
#else
#define LIB "lib"
#endif

/* Where libraries are, in this order: what the loader finds by itself comes first. */
static const char *const PLACES[] = {
#if defined(_WIN32)
    "OpenCL.dll",
#elif defined(__APPLE__)
    "/System/Library/Frameworks/OpenCL.framework/OpenCL",
#elif defined(__ANDROID__)
    "libOpenCL.so",
    "libOpenCL-pixel.so",
    "libOpenCL-car.so",
    "/vendor/" LIB "/libOpenCL.so",
    "/system/vendor/" LIB "/libOpenCL.so",
    "/system/" LIB "/libOpenCL.so",
    "/odm/" LIB "/libOpenCL.so",
    "/vendor/" LIB "/egl/libGLES_mali.so",
    "/system/vendor/" LIB "/egl/libGLES_mali.so",
    "/vendor/" LIB "/libPVROCL.so",
    "/system/vendor/" LIB "/libPVROCL.so",
#else
    "libOpenCL.so.1",
    "libOpenCL.so",
    "/usr/lib64/libOpenCL.so.1",
    "/usr/local/lib/libOpenCL.so.1",
    "/usr/local/lib64/libOpenCL.so.1",
    "/opt/rocm/lib/libOpenCL.so.1",
    "/opt/rocm/opencl/lib/libOpenCL.so.1",
    "/opt/intel/oneapi/compiler/latest/lib/libOpenCL.so.1",
    "/usr/lib/wsl/lib/libOpenCL.so.1",
    "libmali.so.1",
    "libmali.so",
    "/usr/lib/libmali.so", /* boards whose driver is the library */
    "libMaliOpenCL.so",
    "/vendor/" LIB "/libOpenCL.so",
    "/system/vendor/" LIB "/libOpenCL.so",
#endif
};

typedef struct library {
    void *handle;
    void *(*find)(const char *name); /* of libraries that hand their functions out by themselves */
} library;

static int find(const library *from, const char *name, void *function) {
    void *found;
    if (from->find == NULL) return ff_find_function(from->handle, name, function);
    found = from->find(name);
    memcpy(function, &found, sizeof found);
    return found != NULL;
}

static int load(ff_opencl *cl, const char *path) {
    library from = {NULL, NULL};
    void (*enable)(void) = NULL;
    int good = 1;
    from.handle = ff_load_library(path);
    if (from.handle == NULL) return 0;
    if (ff_find_function(from.handle, "loadOpenCLPointer", &from.find) &&
        ff_find_function(from.handle, "enableOpenCL", &enable)) {
        enable();
    }
#define FF_FIND(name, parameters) good = find(&from, "cl" #name, &cl->name) && good;
    FF_CL_STATUS(FF_FIND)
    FF_CL_OBJECTS(FF_FIND)
#undef FF_FIND
    if (!good) ff_free_library(from.handle);
    return good;
}

ff_status ff_opencl_load(ff_opencl *cl, ff_error *error) {
    const char *wanted = getenv("LIBOPENCL_SO_PATH");
    if (wanted != NULL && *wanted != 0) {
        if (load(cl, wanted)) return FF_OK;
        return ff_fail(error, FF_OPENCL,
                       "LIBOPENCL_SO_PATH names '%s', which is no OpenCL library of version 1.2",
                       wanted);
    }
    for (size_t i = 0; i < sizeof PLACES / sizeof *PLACES; i++) {
        if (load(cl, PLACES[i])) return FF_OK;
    }
    return ff_fail(error, FF_OPENCL,
                   "no OpenCL library was found: install the GPU's driver, or name the library by "
                   "LIBOPENCL_SO_PATH");
}

ff_status ff_opencl_fail(ff_error *error, const char *doing, int32_t status) {
    if (status <= CL_OUT_OF_MEMORY_FIRST && status >= CL_OUT_OF_MEMORY_LAST) {
        return ff_fail(error, FF_MEMORY, "out of memory while %s (OpenCL's error %d)", doing,
                       (int)status);
    }
    return ff_fail(error, FF_DEVICE, "the driver failed while %s (OpenCL's error %d)", doing,
                   (int)status);
}

static uint64_t number(const ff_opencl *cl, ff_cl device, uint32_t what) {
    union {
        uint64_t number;
        uint8_t bytes[8];
    } value = {0};
    uint64_t found = 0;
    size_t size = 0;
    if (cl->GetDeviceInfo(device, what, sizeof value, &value, &size) != 0 || size > 8) return 0;
    for (size_t i = 0; i < size; i++) found |= (uint64_t)value.bytes[i] << 8 * i;
    return found;
}

/* A text without the blanks around it; drivers end it with a zero, or not. */
static void trim(char *text) {
    size_t blanks = strspn(text, " \t\r\n"), size = strlen(text);
    while (size > blanks && strchr(" \t\r\n", text[size - 1]) != NULL) size--;
    memmove(text, text + blanks, size - blanks);
    text[size - blanks] = 0;
}

static char *text_of(const ff_opencl *cl, ff_cl device, uint32_t what) {
    size_t size = 0;
    char *text;
    if (cl->GetDeviceInfo(device, what, 0, NULL, &size) != 0) size = 0;
    text = calloc(size + 1, 1);
    if (text == NULL || (size > 0 && cl->GetDeviceInfo(device, what, size, text, NULL) != 0)) {
        free(text);
        return NULL;
    }
    trim(text);
    return text;
}

static void copy_text(const ff_opencl *cl, ff_cl device, uint32_t what, char room[256]) {
    char *text = text_of(cl, device, what);
    if (text != NULL) snprintf(room, 256, "%s", text);
    free(text);
}

/* Whether a word stands in a text, with blanks or ends around it. */
static int has_word(const char *text, const char *word) {
    size_t size = strlen(word);
    for (const char *at = strstr(text, word); at != NULL; at = strstr(at + 1, word)) {
        if ((at == text || at[-1] == ' ') && (at[size] == ' ' || at[size] == 0)) return 1;
    }
    return 0;
}

static int read_facts(const ff_opencl *cl, ff_found_device *found) {
    ff_device *facts = &found->facts;
    ff_cl device = found->device;
    uint64_t kind = number(cl, device, 0x1000);
    uint8_t uuid[16] = {0};
    facts->kind = kind & 1 << 2 ? "gpu" : kind & 1 << 1 ? "cpu" : "other";
    copy_text(cl, device, 0x102B, facts->name);
    copy_text(cl, device, 0x102C, facts->vendor);
    copy_text(cl, device, 0x102D, facts->driver);
    copy_text(cl, device, 0x102F, facts->version);
    cl->GetPlatformInfo(found->platform, 0x0902, sizeof facts->platform - 1, facts->platform, NULL);
    trim(facts->platform);
    if (sscanf(facts->version, "OpenCL %15[0-9.]", facts->language_version) != 1) {
        snprintf(facts->language_version, sizeof facts->language_version, "1.2");
    }
    facts->compute_units = (uint32_t)number(cl, device, 0x1002);
    facts->memory = number(cl, device, 0x101F);
    facts->max_allocation = number(cl, device, 0x1010);
    facts->max_work_group = number(cl, device, 0x1004);
    facts->local_memory = number(cl, device, 0x1023);
    facts->alignment = (uint32_t)number(cl, device, 0x1019) / 8;
    if (facts->alignment == 0) facts->alignment = 1;
    facts->unified_memory = number(cl, device, 0x1035) != 0;
    facts->address_bits = (uint32_t)number(cl, device, 0x100D);
    facts->image_texels = number(cl, device, 0x1016) ? number(cl, device, 0x1040) : 0;
    facts->extensions = text_of(cl, device, 0x1030);
    if (facts->extensions == NULL) return 0;
    if (has_word(facts->extensions, "cl_khr_device_uuid") &&
        cl->GetDeviceInfo(device, 0x106A, sizeof uuid, uuid, NULL) == 0) {
        for (int i = 0; i < 16; i++) snprintf(facts->uuid + 2 * i, 3, "%02x", uuid[i]);
    }
    return 1;
}

/* A platform without devices answers with an error: it has none. */
static ff_cl *handles(const ff_opencl *cl, ff_cl platform, uint32_t *count) {
    ff_cl *found;
    int all = platform == NULL;
    int32_t status = all ? cl->GetPlatformIDs(0, NULL, count)
                         : cl->GetDeviceIDs(platform, 0xFFFFFFFFu, 0, NULL, count);
    if (status != 0 || *count == 0) return NULL;
    found = calloc(*count, sizeof *found);
    if (found == NULL) return NULL;
    status = all ? cl->GetPlatformIDs(*count, found, NULL)
                 : cl->GetDeviceIDs(platform, 0xFFFFFFFFu, *count, found, NULL);
    if (status == 0) return found;
    free(found);
    return NULL;
}

static int add_devices(const ff_opencl *cl, ff_cl platform, ff_found_device **found,
                       size_t *count) {
    uint32_t added = 0;
    ff_cl *devices = handles(cl, platform, &added);
    ff_found_device *more = NULL;
    if (devices == NULL) return 1;
    more = realloc(*found, (*count + added) * sizeof *more);
    if (more != NULL) {
        *found = more;
        for (uint32_t i = 0; i < added; i++) {
            ff_found_device *one = &more[*count];
            memset(one, 0, sizeof *one);
            one->platform = platform;
            one->device = devices[i];
            one->facts.number = (uint32_t)*count;
            if (read_facts(cl, one)) ++*count;
        }
    }
    free(devices);
    return more != NULL;
}

ff_status ff_opencl_devices(const ff_opencl *cl, ff_found_device **devices, size_t *count,
                            ff_error *error) {
    uint32_t platform_count = 0;
    ff_cl *platforms = handles(cl, NULL, &platform_count);
    int good = 1;
    *devices = NULL;
    *count = 0;
    for (uint32_t i = 0; platforms != NULL && good && i < platform_count; i++) {
        good = add_devices(cl, platforms[i], devices, count);
    }
    free(platforms);
    if (good && *count > 0) return FF_OK;
    ff_opencl_free_devices(*devices, *count);
    if (!good) return ff_no_memory(error);
    return ff_fail(error, FF_OPENCL, "no OpenCL driver of this machine has a device");
}

void ff_opencl_free_devices(ff_found_device *devices, size_t count) {
    for (size_t i = 0; i < count; i++) free((void *)(uintptr_t)devices[i].facts.extensions);
    free(devices);
}
