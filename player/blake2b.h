/* BLAKE2b (RFC 7693) with 16-byte digests: the keys of cached program binaries. */
#ifndef FF_BLAKE2B_H
#define FF_BLAKE2B_H

#include <stddef.h>
#include <stdint.h>

typedef struct ff_blake2b {
    uint64_t state[8], total;
    uint8_t block[128];
    size_t used;
} ff_blake2b;

void ff_blake2b_begin(ff_blake2b *digest);
void ff_blake2b_add(ff_blake2b *digest, const void *bytes, size_t size);
void ff_blake2b_end(ff_blake2b *digest, char hex[33]);

#endif
