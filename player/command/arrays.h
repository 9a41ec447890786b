/* Arrays in files: NumPy's .npy, and raw bytes. */
#ifndef FF_ARRAYS_H
#define FF_ARRAYS_H

#include "../fourfold.h"

/* The bytes of a tensor from a file, to be freed; NULL where the file does not fit it. */
void *ff_read_array(const char *path, const ff_tensor *tensor, ff_error *error);
ff_status ff_write_array(const char *path, const ff_tensor *tensor, const void *bytes,
                         ff_error *error);
/* Numbers that are the same in each run: floats from 0 to 1, bytes, other integers 0 or 1. */
void *ff_make_up_array(const ff_tensor *tensor, ff_error *error);

#endif
