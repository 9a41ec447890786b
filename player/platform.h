/* What differs between operating systems: files, libraries, locks and the time. */
#ifndef FF_PLATFORM_H
#define FF_PLATFORM_H

#include <stddef.h>
#include <stdint.h>

#include "fourfold.h"

typedef struct ff_lock ff_lock;

/* A whole file in memory, for reading; `why` gets a reason where that fails. */
int ff_map_file(const char *path, const uint8_t **bytes, size_t *size, char *why, size_t room);
void ff_unmap_file(const uint8_t *bytes, size_t size);

/* Writes a file aside and puts it in place: it is whole, or as it was before. */
int ff_write_file(const char *path, const void *const *pieces, const size_t *sizes, size_t count);
void ff_make_folder(const char *path); /* that it cannot is seen when a file is written */
int ff_file_exists(const char *path);
void ff_remove_file(const char *path);

void *ff_load_library(const char *path);
void ff_free_library(void *library);
/* A function of a library, put where `function` points to; 0 where it has none. */
int ff_find_function(void *library, const char *name, void *function);

ff_lock *ff_lock_make(void); /* NULL without memory */
void ff_lock_take(ff_lock *lock);
void ff_lock_give(ff_lock *lock);
void ff_lock_free(ff_lock *lock);

double ff_seconds(void);

/* Numbers that the device reads or writes meanwhile. */
#if defined(__GNUC__)
#define FF_STORE(place, value) __atomic_store_n((place), (value), __ATOMIC_SEQ_CST)
#define FF_LOAD(place) __atomic_load_n((place), __ATOMIC_SEQ_CST)
#else
#define FF_STORE(place, value) (*(volatile uint32_t *)(place) = (value))
#define FF_LOAD(place) (*(volatile uint32_t *)(place))
#endif

#endif
