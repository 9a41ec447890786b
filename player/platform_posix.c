/* Files, libraries, locks and time on Linux, Android and other POSIX systems. */
#ifndef _WIN32
#define _POSIX_C_SOURCE 200809L
#include "platform.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct ff_lock {
    pthread_mutex_t mutex;
};

int ff_map_file(const char *path, const uint8_t **bytes, size_t *size, char *why, size_t capacity) {
    struct stat info;
    void *mapped = MAP_FAILED;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file >= 0 && fstat(file, &info) == 0) {
        if (!S_ISREG(info.st_mode)) {
            errno = EISDIR;
        } else if (info.st_size <= 0 || (uint64_t)info.st_size > SIZE_MAX) {
            errno = ENODATA;
        } else {
            mapped = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, file, 0);
        }
    }
    if (mapped == MAP_FAILED) snprintf(why, capacity, "%s", strerror(errno));
    if (file >= 0) close(file);
    if (mapped == MAP_FAILED) return 0;
    *bytes = mapped;
    *size = (size_t)info.st_size;
    return 1;
}

void ff_unmap_file(const uint8_t *bytes, size_t size) {
    munmap((void *)(uintptr_t)bytes, size);
}

static int write_all(int file, const uint8_t *bytes, size_t size) {
    while (size > 0) {
        ssize_t written = write(file, bytes, size);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return 0;
        bytes += written;
        size -= (size_t)written;
    }
    return 1;
}

int ff_write_file(const char *path, const void *const *pieces, const size_t *sizes, size_t count) {
    size_t length = strlen(path);
    char *temporary = malloc(length + 8);
    int file, ok;
    if (temporary == NULL) return 0;
    snprintf(temporary, length + 8, "%s.XXXXXX", path);
    file = mkstemp(temporary); /* a new name, readable by the owner only */
    ok = file >= 0;
    for (size_t i = 0; ok && i < count; i++) ok = write_all(file, pieces[i], sizes[i]);
    if (file >= 0) {
        ok = close(file) == 0 && ok;
        ok = ok && rename(temporary, path) == 0;
        if (!ok) unlink(temporary);
    }
    free(temporary);
    return ok;
}

void ff_create_folder(const char *path) {
    mkdir(path, 0700);
}

int ff_is_private(const char *path) {
#ifdef __ANDROID__ /* the group of an app's cache folder is the app's own */
    const mode_t others = S_IWOTH;
#else
    const mode_t others = S_IWGRP | S_IWOTH;
#endif
    struct stat info;
    return stat(path, &info) == 0 && (info.st_uid == geteuid() || info.st_uid == 0) &&
           (info.st_mode & others) == 0;
}

int ff_file_exists(const char *path) {
    return access(path, F_OK) == 0;
}

void ff_remove_file(const char *path) {
    unlink(path);
}

/* The OpenCL loader in wheels of pyopencl crashes unless this variable names its package. */
static void set_loader_folder(const char *path) {
    const char *end = strstr(path, "/.libs/");
    char *folder = end == NULL ? NULL : malloc((size_t)(end - path) + 1);
    if (folder == NULL) return;
    memcpy(folder, path, (size_t)(end - path));
    folder[end - path] = 0;
    setenv("PYOPENCL_HOME", folder, 0);
    free(folder);
}

void *ff_load_library(const char *path) {
    set_loader_folder(path);
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

void ff_free_library(void *library) {
    dlclose(library);
}

int ff_find_function(void *library, const char *name, void *function) {
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

ff_lock *ff_lock_create(void) {
    ff_lock *lock = malloc(sizeof *lock);
    if (lock != NULL && pthread_mutex_init(&lock->mutex, NULL) != 0) {
        free(lock);
        lock = NULL;
    }
    return lock;
}

void ff_lock_acquire(ff_lock *lock) {
    pthread_mutex_lock(&lock->mutex);
}

void ff_lock_release(ff_lock *lock) {
    pthread_mutex_unlock(&lock->mutex);
}

void ff_lock_free(ff_lock *lock) {
    if (lock == NULL) return;
    pthread_mutex_destroy(&lock->mutex);
    free(lock);
}

double ff_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
#else
typedef int ff_unused; /* C99 requires a declaration in every file */
#endif
