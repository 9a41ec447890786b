/* The file form: a header, a table of sections, and sections that are used where they lie. */
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
    int mapped;
    uint32_t count;
    uint8_t *checked;            /* for each section whether its checksum was found right */
    uint32_t (*remainders)[256]; /* of CRC-32, for several bytes at once */
} ff_container;

/* A file of sections at a path, or in memory; nothing is believed before its checksum held. */
ff_status ff_container_open(ff_container *file, const char *path, ff_error *error);
ff_status ff_container_of(ff_container *file, const void *bytes, size_t size, ff_error *error);
void ff_container_close(ff_container *file);

/* The bytes of a section that must have this name. */
ff_status ff_container_section(ff_container *file, int64_t number, const char *name,
                               ff_section *found, ff_error *error);

/* Writes a file of two sections, of which the second may be large. */
int ff_container_write(const char *path, const char *const names[2], const ff_section sections[2]);

/* An error, whose text is made as printf makes it; gives the status. */
ff_status ff_fail(ff_error *error, ff_status status, const char *format, ...)
#if defined(__GNUC__) && !defined(_WIN32)
    __attribute__((format(printf, 3, 4)))
#endif
    ;
ff_status ff_no_memory(ff_error *error);

#endif
