/* Decompression of deflate streams (RFC 1951). */
#ifndef FF_INFLATE_H
#define FF_INFLATE_H

#include <stddef.h>
#include <stdint.h>

/* Expands a stream into exactly `size` bytes; returns 0 if the stream is invalid or has another
 * size. */
int ff_inflate(const uint8_t *stream, size_t length, uint8_t *target, size_t size);

#endif
