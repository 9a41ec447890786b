/* Ed25519 as specified by RFC 8032, section 5.1: only verification. */
#include "ed25519.h"

#include <string.h>

#include "sha512.h"

enum { LIMBS = 16, WORDS = 8, SCALAR_BITS = 253 };

/* A number modulo p = 2^255 - 19: the sum of limbs[i] * 2^(16 i). Every function writes limbs of
 * less than 2^17, so that products of them fit into 64 bits. */
typedef struct field {
    uint64_t limbs[LIMBS];
} field;

/* A point (x, y) of the curve in extended coordinates: x = X / Z, y = Y / Z, x y = T / Z. */
typedef struct point {
    field x, y, z, t;
} point;

static const field ZERO = {{0}}, ONE = {{1}};
static const field D = {{0x78a3, 0x1359, 0x4dca, 0x75eb, 0xd8ab, 0x4141, 0x0a4d, 0x0070, 0xe898,
                         0x7779, 0x4079, 0x8cc7, 0xfe73, 0x2b6f, 0x6cee, 0x5203}};
static const field ROOT_OF_MINUS_ONE = {{0xa0b0, 0x4a0e, 0x1b27, 0xc4ee, 0xe478, 0xad2f, 0x1806,
                                         0x2f43, 0xd7a7, 0x3dfb, 0x0099, 0x2b4d, 0xdf0b, 0x4fc1,
                                         0x2480, 0x2b83}};
/* The order of the base point. */
static const uint32_t ORDER[WORDS] = {0x5cf5d3ed, 0x5812631a, 0xa2f79cd6, 0x14def9de,
                                      0,          0,          0,          0x10000000};

/* Moves what exceeds 16 bits of a limb to the next; 2^256 is 38 modulo p. */
static void carry(field *value) {
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < LIMBS; i++) {
            uint64_t excess = value->limbs[i] >> 16;
            value->limbs[i] &= 0xffff;
            if (i + 1 < LIMBS) value->limbs[i + 1] += excess;
            else value->limbs[0] += 38 * excess;
        }
    }
}

static uint64_t limb_of_p(int i) {
    return i == 0 ? 0xffed : i + 1 < LIMBS ? 0xffff : 0x7fff;
}

/* The results of these functions may be one of their arguments. */
static void add(field *result, const field *a, const field *b) {
    for (int i = 0; i < LIMBS; i++) result->limbs[i] = a->limbs[i] + b->limbs[i];
    carry(result);
}

/* Computes a - b as a + 8 p - b, so that no limb is negative. */
static void subtract(field *result, const field *a, const field *b) {
    for (int i = 0; i < LIMBS; i++) {
        result->limbs[i] = a->limbs[i] + 8 * limb_of_p(i) - b->limbs[i];
    }
    carry(result);
}

static void multiply(field *result, const field *a, const field *b) {
    uint64_t products[2 * LIMBS] = {0};
    for (int i = 0; i < LIMBS; i++) {
        for (int j = 0; j < LIMBS; j++) products[i + j] += a->limbs[i] * b->limbs[j];
    }
    for (int i = 0; i < LIMBS; i++) result->limbs[i] = products[i] + 38 * products[i + LIMBS];
    carry(result);
}

/* Computes a power whose exponent has `bits` bits, all 1 except for the bits of `zeros`. */
static void power(field *result, const field *value, int bits, uint32_t zeros) {
    field base = *value;
    *result = base;
    for (int bit = bits - 2; bit >= 0; bit--) {
        multiply(result, result, result);
        if (bit >= 32 || !(zeros >> bit & 1)) multiply(result, result, &base);
    }
}

/* Writes the number below p that a field element stands for. */
static void pack(uint8_t bytes[32], const field *packed) {
    field value = *packed;
    carry(&value);
    for (int pass = 0; pass < 2; pass++) { /* the value is less than 2 p + 38 */
        field less;
        uint64_t borrow = 0;
        for (int i = 0; i < LIMBS; i++) {
            uint64_t difference = value.limbs[i] - limb_of_p(i) - borrow;
            less.limbs[i] = difference & 0xffff;
            borrow = difference >> 63;
        }
        if (!borrow) value = less;
    }
    for (int i = 0; i < LIMBS; i++) {
        bytes[2 * i] = (uint8_t)value.limbs[i];
        bytes[2 * i + 1] = (uint8_t)(value.limbs[i] >> 8);
    }
}

static void unpack(field *result, const uint8_t bytes[32]) {
    for (int i = 0; i < LIMBS; i++) {
        result->limbs[i] = bytes[2 * i] | (uint64_t)bytes[2 * i + 1] << 8;
    }
    result->limbs[LIMBS - 1] &= 0x7fff;
}

static int is_equal(const field *a, const field *b) {
    uint8_t left[32], right[32];
    pack(left, a);
    pack(right, b);
    return memcmp(left, right, sizeof left) == 0;
}

/* Adds a point with formulas that hold for any two points, equal ones included. */
static void add_point(point *sum, const point *other) {
    field a, b, c, d, e;
    subtract(&a, &sum->y, &sum->x);
    subtract(&e, &other->y, &other->x);
    multiply(&a, &a, &e);
    add(&b, &sum->y, &sum->x);
    add(&e, &other->y, &other->x);
    multiply(&b, &b, &e);
    multiply(&c, &sum->t, &other->t);
    multiply(&c, &c, &D);
    add(&c, &c, &c);
    multiply(&d, &sum->z, &other->z);
    add(&d, &d, &d);
    subtract(&e, &b, &a);
    add(&b, &b, &a);
    subtract(&a, &d, &c);
    add(&d, &d, &c);
    multiply(&sum->x, &e, &a);
    multiply(&sum->y, &d, &b);
    multiply(&sum->z, &a, &d);
    multiply(&sum->t, &e, &b);
}

/* Computes a square root of u / v, or of -u / v: u v^3 (u v^7)^((p - 5) / 8). */
static void root(field *x, const field *u, const field *v) {
    field v3;
    multiply(&v3, v, v);
    multiply(&v3, &v3, v);
    multiply(x, &v3, &v3);
    multiply(x, x, v);
    multiply(x, x, u);
    power(x, x, 252, 1u << 1); /* (p - 5) / 8 = 2^252 - 3 */
    multiply(x, x, &v3);
    multiply(x, x, u);
}

/* Reads a point: y, and the lowest bit of x. Returns 0 if there is no such point. */
static int unpack_point(point *result, const uint8_t bytes[32]) {
    field u, v, check, *x = &result->x;
    uint8_t packed[32];
    unpack(&result->y, bytes);
    pack(packed, &result->y);
    if ((packed[31] ^ bytes[31]) & 0x7f || memcmp(packed, bytes, 31) != 0) return 0; /* y >= p */
    multiply(&u, &result->y, &result->y);
    multiply(&v, &u, &D);
    subtract(&u, &u, &ONE);
    add(&v, &v, &ONE);
    root(x, &u, &v);
    multiply(&check, x, x);
    multiply(&check, &check, &v);
    if (!is_equal(&check, &u)) {
        subtract(&u, &ZERO, &u);
        if (!is_equal(&check, &u)) return 0;
        multiply(x, x, &ROOT_OF_MINUS_ONE);
    }
    pack(packed, x);
    if ((packed[0] & 1) != bytes[31] >> 7) {
        if (is_equal(x, &ZERO)) return 0;
        subtract(x, &ZERO, x);
    }
    result->z = ONE;
    multiply(&result->t, x, &result->y);
    return 1;
}

static void pack_point(uint8_t bytes[32], const point *value) {
    field scale, scaled;
    uint8_t x[32];
    power(&scale, &value->z, 255, 1u << 2 | 1u << 4); /* 1 / z: the power p - 2 = 2^255 - 21 */
    multiply(&scaled, &value->x, &scale);
    pack(x, &scaled);
    multiply(&scaled, &value->y, &scale);
    pack(bytes, &scaled);
    bytes[31] |= (uint8_t)((x[0] & 1) << 7);
}

static int is_below_order(const uint32_t value[WORDS]) {
    for (int i = WORDS - 1; i >= 0; i--) {
        if (value[i] != ORDER[i]) return value[i] < ORDER[i];
    }
    return 0;
}

/* Reduces a number of 512 bits modulo the order, from its highest bit to its lowest. */
static void reduce(uint32_t result[WORDS], const uint8_t bytes[FF_SHA512_BYTES]) {
    memset(result, 0, WORDS * sizeof *result);
    for (int bit = 8 * FF_SHA512_BYTES - 1; bit >= 0; bit--) {
        uint32_t in = bytes[bit / 8] >> bit % 8 & 1;
        for (int i = 0; i < WORDS; i++) {
            uint32_t out = result[i] >> 31;
            result[i] = result[i] << 1 | in;
            in = out;
        }
        if (!is_below_order(result)) {
            uint64_t borrow = 0;
            for (int i = 0; i < WORDS; i++) {
                uint64_t difference = (uint64_t)result[i] - ORDER[i] - borrow;
                result[i] = (uint32_t)difference;
                borrow = difference >> 63;
            }
        }
    }
}

static int has_bit(const uint32_t value[WORDS], int bit) {
    return value[bit / 32] >> bit % 32 & 1;
}

int ff_ed25519_verify(const uint8_t signature[FF_SIGNATURE_BYTES], const uint8_t key[FF_KEY_BYTES],
                      const void *message, size_t size) {
    static const uint8_t base[32] = {0x58, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66,
                                     0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66,
                                     0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66,
                                     0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66};
    uint8_t digest[FF_SHA512_BYTES], packed[32];
    uint32_t s[WORDS], k[WORDS];
    point sum = {{{0}}, {{1}}, {{1}}, {{0}}}, terms[4];
    ff_sha512 hash;
    for (int i = 0; i < WORDS; i++) {
        const uint8_t *word = signature + 32 + 4 * i;
        s[i] = word[0] | (uint32_t)word[1] << 8 | (uint32_t)word[2] << 16 | (uint32_t)word[3] << 24;
    }
    if (!is_below_order(s)) return 0; /* every signature has only one form */
    if (!unpack_point(&terms[1], base) || !unpack_point(&terms[2], key)) return 0;
    subtract(&terms[2].x, &ZERO, &terms[2].x);
    subtract(&terms[2].t, &ZERO, &terms[2].t);
    terms[3] = terms[1];
    add_point(&terms[3], &terms[2]);
    ff_sha512_begin(&hash);
    ff_sha512_add(&hash, signature, 32);
    ff_sha512_add(&hash, key, FF_KEY_BYTES);
    ff_sha512_add(&hash, message, size);
    ff_sha512_end(&hash, digest);
    reduce(k, digest);
    /* The signature is valid if its first half is s * base - k * key. */
    for (int bit = SCALAR_BITS - 1; bit >= 0; bit--) {
        int term = has_bit(s, bit) + 2 * has_bit(k, bit);
        point same = sum;
        add_point(&sum, &same);
        if (term > 0) add_point(&sum, &terms[term]);
    }
    pack_point(packed, &sum);
    return memcmp(packed, signature, sizeof packed) == 0;
}
