/* The container format: a header, a table of sections, and sections that are used in place. */
#ifndef FF_CONTAINER_H
#define FF_CONTAINER_H

#include "fourfold.h"

typedef struct ff_section {
    const uint8_t *bytes;
    size_t size;
} ff_section;

typedef struct ff_container {
    const uint8_t *bytes, *table;
    size_t size;
    int mapped;  /* `bytes` is a mapped file */
    void *owned; /* memory of `bytes` that closing frees, or NULL */
    uint32_t count;
    uint8_t *checked;            /* one flag per section: its checksum was verified */
    uint8_t **expanded;          /* contents of compressed sections that were used, or NULL */
    uint32_t (*crc_tables)[256]; /* lookup tables of CRC-32, for CRC_BYTES at once */
} ff_container;

/* Opens a container from a path or from memory, and verifies header and table. */
ff_status ff_container_open(ff_container *file, const char *path, ff_error *error);
ff_status ff_container_open_memory(ff_container *file, const void *bytes, size_t size,
                                   ff_error *error);
/* Replaces a mapped file by a copy in memory, which no other process can change. */
ff_status ff_container_copy(ff_container *file, ff_error *error);
/* Returns the size of the key and signature at the end of the file; 0 if it is not signed. */
uint32_t ff_container_signature_bytes(const ff_container *file);
void ff_container_close(ff_container *file);

/* Returns the bytes of a section after checking its name and checksum. */
ff_status ff_container_section(ff_container *file, int64_t number, const char *name,
                               ff_section *section, ff_error *error);

/* Writes a container with two sections; returns 0 on failure. */
int ff_container_write(const char *path, const char *const names[2], const ff_section sections[2]);

/* Fills in an error with a text formatted as by printf, and returns the status. */
ff_status ff_fail(ff_error *error, ff_status status, const char *format, ...)
#if defined(__GNUC__) && !defined(_WIN32)
    __attribute__((format(printf, 3, 4)))
#endif
    ;
ff_status ff_no_memory(ff_error *error);

#endif
