/* Loads the OpenCL library and lists its devices. */
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

/* Paths that are tried in this order; names without a folder use the loader's search path. */
static const char *const LIBRARY_PATHS[] = {
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
    "/usr/lib/libmali.so", /* boards where the driver is the library */
    "libMaliOpenCL.so",
    "/vendor/" LIB "/libOpenCL.so",
    "/system/vendor/" LIB "/libOpenCL.so",
#endif
};

static const char POCL[] = "Portable Computing Language"; /* name of a platform */

typedef struct library {
    void *handle;
    void *(*find_symbol)(
        const char *name); /* of libraries with a lookup function of their own, or NULL */
} library;

static int find_symbol(const library *from, const char *name, void *function) {
    void *address;
    if (from->find_symbol == NULL) return ff_find_function(from->handle, name, function);
    address = from->find_symbol(name);
    memcpy(function, &address, sizeof address);
    return address != NULL;
}

static int load(ff_opencl *cl, const char *path) {
    library from = {NULL, NULL};
    void (*enable)(void) = NULL;
    int good = 1;
    from.handle = ff_load_library(path);
    if (from.handle == NULL) return 0;
    if (ff_find_function(from.handle, "loadOpenCLPointer", &from.find_symbol) &&
        ff_find_function(from.handle, "enableOpenCL", &enable)) {
        enable();
    }
#define FF_FIND(name, parameters) good = find_symbol(&from, "cl" #name, &cl->name) && good;
    FF_CL_STATUS_FUNCTIONS(FF_FIND)
    FF_CL_OBJECT_FUNCTIONS(FF_FIND)
#undef FF_FIND
    if (!good) ff_free_library(from.handle);
    return good;
}

ff_status ff_opencl_load(ff_opencl *cl, ff_error *error) {
    const char *path = getenv("LIBOPENCL_SO_PATH");
    if (path != NULL && *path != 0) {
        if (load(cl, path)) return FF_OK;
        return ff_fail(error, FF_OPENCL,
                       "'%s' (LIBOPENCL_SO_PATH) is not an OpenCL library of version 1.2 or later",
                       path);
    }
    for (size_t i = 0; i < sizeof LIBRARY_PATHS / sizeof *LIBRARY_PATHS; i++) {
        if (load(cl, LIBRARY_PATHS[i])) return FF_OK;
    }
    return ff_fail(
        error, FF_OPENCL,
        "no OpenCL library was found; install the GPU's driver, or set LIBOPENCL_SO_PATH "
        "to the path of the library");
}

ff_status ff_opencl_fail(ff_error *error, const char *action, int32_t status) {
    if (status <= CL_OUT_OF_MEMORY_FIRST && status >= CL_OUT_OF_MEMORY_LAST) {
        return ff_fail(error, FF_MEMORY, "out of memory while %s (OpenCL error %d)", action,
                       (int)status);
    }
    return ff_fail(error, FF_DEVICE, "the driver failed while %s (OpenCL error %d)", action,
                   (int)status);
}

static uint64_t read_number(const ff_opencl *cl, ff_cl device, uint32_t what) {
    union {
        uint64_t number;
        uint8_t bytes[8];
    } value = {0};
    uint64_t result = 0;
    size_t size = 0;
    if (cl->GetDeviceInfo(device, what, sizeof value, &value, &size) != 0 || size > 8) return 0;
    for (size_t i = 0; i < size; i++) result |= (uint64_t)value.bytes[i] << 8 * i;
    return result;
}

/* Removes white space at both ends. */
static void trim(char *text) {
    size_t spaces = strspn(text, " \t\r\n"), size = strlen(text);
    while (size > spaces && strchr(" \t\r\n", text[size - 1]) != NULL) size--;
    memmove(text, text + spaces, size - spaces);
    text[size - spaces] = 0;
}

static char *read_device_text(const ff_opencl *cl, ff_cl device, uint32_t what) {
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

static void copy_device_text(const ff_opencl *cl, ff_cl device, uint32_t what,
                             char text_buffer[256]) {
    char *text = read_device_text(cl, device, what);
    if (text != NULL) snprintf(text_buffer, 256, "%s", text);
    free(text);
}

/* Returns whether a text, split at spaces, contains a word. */
static int has_word(const char *text, const char *word) {
    size_t size = strlen(word);
    for (const char *at = strstr(text, word); at != NULL; at = strstr(at + 1, word)) {
        if ((at == text || at[-1] == ' ') && (at[size] == ' ' || at[size] == 0)) return 1;
    }
    return 0;
}

static int read_facts(const ff_opencl *cl, ff_device_entry *entry) {
    ff_device *facts = &entry->facts;
    ff_cl device = entry->device;
    uint64_t kind = read_number(cl, device, 0x1000);
    uint8_t uuid[16] = {0};
    facts->kind = kind & 1 << 2 ? "gpu" : kind & 1 << 1 ? "cpu" : "other";
    copy_device_text(cl, device, 0x102B, facts->name);
    copy_device_text(cl, device, 0x102C, facts->vendor);
    copy_device_text(cl, device, 0x102D, facts->driver);
    copy_device_text(cl, device, 0x102F, facts->version);
    cl->GetPlatformInfo(entry->platform, 0x0902, sizeof facts->platform - 1, facts->platform, NULL);
    trim(facts->platform);
    if (strcmp(facts->platform, POCL) == 0) ff_name_pocl_cpu(device);
    if (sscanf(facts->version, "OpenCL %15[0-9.]", facts->language_version) != 1) {
        snprintf(facts->language_version, sizeof facts->language_version, "1.2");
    }
    facts->compute_units = (uint32_t)read_number(cl, device, 0x1002);
    facts->memory = read_number(cl, device, 0x101F);
    facts->max_allocation = read_number(cl, device, 0x1010);
    facts->max_work_group = read_number(cl, device, 0x1004);
    facts->local_memory = read_number(cl, device, 0x1023);
    facts->alignment = (uint32_t)read_number(cl, device, 0x1019) / 8;
    if (facts->alignment == 0) facts->alignment = 1;
    facts->unified_memory = read_number(cl, device, 0x1035) != 0;
    facts->address_bits = (uint32_t)read_number(cl, device, 0x100D);
    facts->image_texels = read_number(cl, device, 0x1016) ? read_number(cl, device, 0x1040) : 0;
    facts->extensions = read_device_text(cl, device, 0x1030);
    if (facts->extensions == NULL) return 0;
    if (has_word(facts->extensions, "cl_khr_device_uuid") &&
        cl->GetDeviceInfo(device, 0x106A, sizeof uuid, uuid, NULL) == 0) {
        for (int i = 0; i < 16; i++) snprintf(facts->uuid + 2 * i, 3, "%02x", uuid[i]);
    }
    return 1;
}

/* Lists platforms, or the devices of a platform; one without devices returns an error code. */
static ff_cl *list_handles(const ff_opencl *cl, ff_cl platform, uint32_t *count) {
    ff_cl *list;
    int all = platform == NULL;
    int32_t status = all ? cl->GetPlatformIDs(0, NULL, count)
                         : cl->GetDeviceIDs(platform, 0xFFFFFFFFu, 0, NULL, count);
    if (status != 0 || *count == 0) return NULL;
    list = calloc(*count, sizeof *list);
    if (list == NULL) return NULL;
    status = all ? cl->GetPlatformIDs(*count, list, NULL)
                 : cl->GetDeviceIDs(platform, 0xFFFFFFFFu, *count, list, NULL);
    if (status == 0) return list;
    free(list);
    return NULL;
}

static int add_devices(const ff_opencl *cl, ff_cl platform, ff_device_entry **entries,
                       size_t *count) {
    uint32_t added = 0;
    ff_cl *devices = list_handles(cl, platform, &added);
    ff_device_entry *more = NULL;
    if (devices == NULL) return 1;
    more = realloc(*entries, (*count + added) * sizeof *more);
    if (more != NULL) {
        *entries = more;
        for (uint32_t i = 0; i < added; i++) {
            ff_device_entry *entry = &more[*count];
            memset(entry, 0, sizeof *entry);
            entry->platform = platform;
            entry->device = devices[i];
            entry->facts.number = (uint32_t)*count;
            if (read_facts(cl, entry)) ++*count;
        }
    }
    free(devices);
    return more != NULL;
}

ff_status ff_opencl_devices(const ff_opencl *cl, ff_device_entry **devices, size_t *count,
                            ff_error *error) {
    uint32_t platform_count = 0;
    ff_cl *platforms = list_handles(cl, NULL, &platform_count);
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
    return ff_fail(error, FF_OPENCL, "no OpenCL device was found; install the GPU's driver");
}

void ff_opencl_free_devices(ff_device_entry *devices, size_t count) {
    for (size_t i = 0; i < count; i++) free((void *)(uintptr_t)devices[i].facts.extensions);
    free(devices);
}
