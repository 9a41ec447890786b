/* BLAKE2b with 16-byte digests, as specified in RFC 7693. */
#include "blake2b.h"

#include <string.h>

enum { ROUNDS = 12, BLOCK_BYTES = 128, DIGEST_BYTES = 16 };

static const uint64_t INITIAL_STATE[8] = {
    0x6A09E667F3BCC908u, 0xBB67AE8584CAA73Bu, 0x3C6EF372FE94F82Bu, 0xA54FF53A5F1D36F1u,
    0x510E527FADE682D1u, 0x9B05688C2B3E6C1Fu, 0x1F83D9ABFB41BD6Bu, 0x5BE0CD19137E2179u};

static const uint8_t MESSAGE_ORDER[10][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
    {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
    {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
    {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
    {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0}};

/* Indices of the four words that each step mixes: columns, then diagonals. */
static const uint8_t MIXED_WORDS[8][4] = {{0, 4, 8, 12},  {1, 5, 9, 13},  {2, 6, 10, 14},
                                          {3, 7, 11, 15}, {0, 5, 10, 15}, {1, 6, 11, 12},
                                          {2, 7, 8, 13},  {3, 4, 9, 14}};

static uint64_t rotate_right(uint64_t word, int bits) {
    return word >> bits | word << (64 - bits);
}

static void mix(uint64_t *v, const uint8_t *at, uint64_t x, uint64_t y) {
    uint64_t *a = v + at[0], *b = v + at[1], *c = v + at[2], *d = v + at[3];
    *a += *b + x;
    *d = rotate_right(*d ^ *a, 32);
    *c += *d;
    *b = rotate_right(*b ^ *c, 24);
    *a += *b + y;
    *d = rotate_right(*d ^ *a, 16);
    *c += *d;
    *b = rotate_right(*b ^ *c, 63);
}

static void compress(ff_blake2b *digest, const uint8_t *block, int last) {
    uint64_t words[16] = {0}, v[16];
    for (int i = 0; i < BLOCK_BYTES; i++) words[i / 8] |= (uint64_t)block[i] << 8 * (i % 8);
    for (int i = 0; i < 8; i++) {
        v[i] = digest->state[i];
        v[i + 8] = INITIAL_STATE[i];
    }
    v[12] ^= digest->total;
    if (last) v[14] = ~v[14];
    for (int round = 0; round < ROUNDS; round++) {
        const uint8_t *order = MESSAGE_ORDER[round % 10];
        for (int i = 0; i < 8; i++) {
            mix(v, MIXED_WORDS[i], words[order[2 * i]], words[order[2 * i + 1]]);
        }
    }
    for (int i = 0; i < 8; i++) digest->state[i] ^= v[i] ^ v[i + 8];
}

void ff_blake2b_begin(ff_blake2b *digest) {
    memset(digest, 0, sizeof *digest);
    memcpy(digest->state, INITIAL_STATE, sizeof INITIAL_STATE);
    digest->state[0] ^= 0x01010000u ^ DIGEST_BYTES;
}

void ff_blake2b_add(ff_blake2b *digest, const void *bytes, size_t size) {
    const uint8_t *from = bytes;
    while (size > 0) {
        size_t part = BLOCK_BYTES - digest->used;
        if (part == 0) { /* more bytes follow, so this block is not the last */
            digest->total += BLOCK_BYTES;
            compress(digest, digest->block, 0);
            digest->used = 0;
            continue;
        }
        if (part > size) part = size;
        memcpy(digest->block + digest->used, from, part);
        digest->used += part;
        from += part;
        size -= part;
    }
}

void ff_blake2b_end(ff_blake2b *digest, char hex[33]) {
    static const char digits[] = "0123456789abcdef";
    digest->total += digest->used;
    memset(digest->block + digest->used, 0, BLOCK_BYTES - digest->used);
    compress(digest, digest->block, 1);
    for (int i = 0; i < DIGEST_BYTES; i++) {
        uint8_t byte = (uint8_t)(digest->state[i / 8] >> 8 * (i % 8));
        hex[2 * i] = digits[byte >> 4];
        hex[2 * i + 1] = digits[byte & 15];
    }
    hex[32] = 0;
}
