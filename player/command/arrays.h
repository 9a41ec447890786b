/* Reads and writes arrays as NumPy's .npy files or raw bytes. */
#ifndef FF_ARRAYS_H
#define FF_ARRAYS_H

#include "../fourfold.h"

/* Returns the bytes of a tensor from a file, to be freed; NULL if the file does not match it. */
void *ff_read_array(const char *path, const ff_tensor *tensor, ff_error *error);
ff_status ff_write_array(const char *path, const ff_tensor *tensor, const void *bytes,
                         ff_error *error);
/* Returns reproducible values: floats from 0 to 1, bytes of any value, other integers 0 or 1. */
void *ff_random_array(const ff_tensor *tensor, ff_error *error);

#endif
