/* SHA-512 (FIPS 180-4): the digest in signatures of prepared files. */
#ifndef FF_SHA512_H
#define FF_SHA512_H

#include <stddef.h>
#include <stdint.h>

enum { FF_SHA512_BYTES = 64 };

typedef struct ff_sha512 {
    uint64_t state[8], total;
    uint8_t block[128];
    size_t used;
} ff_sha512;

void ff_sha512_begin(ff_sha512 *digest);
void ff_sha512_add(ff_sha512 *digest, const void *bytes, size_t size);
void ff_sha512_end(ff_sha512 *digest, uint8_t result[FF_SHA512_BYTES]);

#endif
