/* Functions that differ between operating systems: files, libraries, locks and time. */
#ifndef FF_PLATFORM_H
#define FF_PLATFORM_H

#include <stddef.h>
#include <stdint.h>

#include "fourfold.h"

typedef struct ff_lock ff_lock;

/* Maps a file read-only; returns 0 on failure, with the reason in `why`. */
int ff_map_file(const char *path, const uint8_t **bytes, size_t *size, char *why, size_t capacity);
void ff_unmap_file(const uint8_t *bytes, size_t size);

/* Writes a temporary file and renames it, so that readers see all of it or the previous one. */
int ff_write_file(const char *path, const void *const *pieces, const size_t *sizes, size_t count);
void ff_create_folder(const char *path); /* errors show when a file is written */
int ff_file_exists(const char *path);
/* Returns 1 if only this user, or the superuser, can write to a file or folder. On Windows the rights
 * that it inherits decide. */
int ff_is_private(const char *path);
void ff_remove_file(const char *path);

void *ff_load_library(const char *path);
void ff_free_library(void *library);
/* Stores the address of a library function in `*function`; returns 0 if there is none. */
int ff_find_function(void *library, const char *name, void *function);

ff_lock *ff_lock_create(void); /* NULL if memory runs out */
void ff_lock_acquire(ff_lock *lock);
void ff_lock_release(ff_lock *lock);
void ff_lock_free(ff_lock *lock);

double ff_seconds(void);

/* Gives a device of PoCL the name of a processor that PoCL can compile for, if it has none.
 * Does nothing on systems other than Linux on x86-64. */
void ff_name_pocl_cpu(const void *device);

/* Access to numbers that the device reads or writes at the same time. */
#if defined(__GNUC__)
#define FF_STORE(place, value) __atomic_store_n((place), (value), __ATOMIC_SEQ_CST)
#define FF_LOAD(place) __atomic_load_n((place), __ATOMIC_SEQ_CST)
#else
#define FF_STORE(place, value) (*(volatile uint32_t *)(place) = (value))
#define FF_LOAD(place) (*(volatile uint32_t *)(place))
#endif

#endif
