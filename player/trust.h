/* Trust: which prepared files may bring code, and the signatures of those that must be signed. */
#ifndef FF_TRUST_H
#define FF_TRUST_H

#include "container.h"

typedef enum ff_trust {
    FF_TRUST_EXTENSION, /* files whose name ends in ".fourfold" */
    FF_TRUST_DATA,      /* no file: its binaries are not loaded, and CPUs do not run its kernels */
    FF_TRUST_SIGNED,    /* files with a signature by one of the keys */
    FF_TRUST_ALL        /* every file */
} ff_trust;

/* Reads a level of trust: NULL, "extension", "data", "signed:KEY,KEY..." or "all". */
ff_status ff_trust_read(ff_trust *trust, const char *text, ff_error *error);
/* Checks that a file is trusted, by its path or its signature. `text` is what `trust` was read
 * from; `path` is NULL for a file in memory. */
ff_status ff_trust_check(const ff_container *file, ff_trust trust, const char *text,
                         const char *path, ff_error *error);

#endif
