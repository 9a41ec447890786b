/* Ed25519 as specified by RFC 8032, section 5.1: only verification. */
#include "ed25519.h"

#include <string.h>

#include "sha512.h"

enum { LIMBS = 16, WORDS = 8, SCALAR_BITS = 253 };

/* A number modulo p = 2^255 - 19: the sum of limbs[i] * 2^(16 i). Every function returns limbs of
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
static field carry(field value) {
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < LIMBS; i++) {
            uint64_t excess = value.limbs[i] >> 16;
            value.limbs[i] &= 0xffff;
            if (i + 1 < LIMBS) value.limbs[i + 1] += excess;
            else value.limbs[0] += 38 * excess;
        }
    }
    return value;
}

static field add(field a, field b) {
    for (int i = 0; i < LIMBS; i++) a.limbs[i] += b.limbs[i];
    return carry(a);
}

/* Returns a - b, computed as a + 8 p - b, so that no limb is negative. */
static field subtract(field a, field b) {
    for (int i = 0; i < LIMBS; i++) {
        uint64_t limb = i == 0 ? 0xffed : i + 1 < LIMBS ? 0xffff : 0x7fff;
        a.limbs[i] += 8 * limb - b.limbs[i];
    }
    return carry(a);
}

static field multiply(field a, field b) {
    uint64_t products[2 * LIMBS] = {0};
    field result;
    for (int i = 0; i < LIMBS; i++) {
        for (int j = 0; j < LIMBS; j++) products[i + j] += a.limbs[i] * b.limbs[j];
    }
    for (int i = 0; i < LIMBS; i++) {
        result.limbs[i] = products[i] + 38 * products[i + LIMBS];
    }
    return carry(result);
}

/* Returns a power whose exponent has `bits` bits, all 1 except for the bits of `zeros`. */
static field power(field value, int bits, uint32_t zeros) {
    field result = value;
    for (int bit = bits - 2; bit >= 0; bit--) {
        result = multiply(result, result);
        if (bit >= 32 || !(zeros >> bit & 1)) result = multiply(result, value);
    }
    return result;
}

/* Returns 1 / value: the power p - 2 = 2^255 - 21. */
static field invert(field value) {
    return power(value, 255, 1u << 2 | 1u << 4);
}

/* Writes the number below p that a field element stands for. */
static void pack(uint8_t bytes[32], field value) {
    value = carry(carry(value));
    for (int pass = 0; pass < 2; pass++) { /* the value is less than 2 p + 38 */
        field less;
        uint64_t borrow = 0;
        for (int i = 0; i < LIMBS; i++) {
            uint64_t limb = i == 0 ? 0xffed : i + 1 < LIMBS ? 0xffff : 0x7fff;
            uint64_t difference = value.limbs[i] - limb - borrow;
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

static field unpack(const uint8_t bytes[32]) {
    field result;
    for (int i = 0; i < LIMBS; i++) {
        result.limbs[i] = bytes[2 * i] | (uint64_t)bytes[2 * i + 1] << 8;
    }
    result.limbs[LIMBS - 1] &= 0x7fff;
    return result;
}

static int is_equal(field a, field b) {
    uint8_t left[32], right[32];
    pack(left, a);
    pack(right, b);
    return memcmp(left, right, sizeof left) == 0;
}

/* Adds two points with formulas that hold for any two points, equal ones included. */
static point add_points(const point *p, const point *q) {
    field a = multiply(subtract(p->y, p->x), subtract(q->y, q->x));
    field b = multiply(add(p->y, p->x), add(q->y, q->x));
    field c = multiply(multiply(p->t, q->t), add(D, D));
    field d = multiply(p->z, add(q->z, q->z));
    field e = subtract(b, a), f = subtract(d, c), g = add(d, c), h = add(b, a);
    point sum;
    sum.x = multiply(e, f);
    sum.y = multiply(g, h);
    sum.z = multiply(f, g);
    sum.t = multiply(e, h);
    return sum;
}

/* Reads a point: y, and the lowest bit of x. Returns 0 if there is no such point. */
static int unpack_point(point *result, const uint8_t bytes[32]) {
    field y = unpack(bytes), square = multiply(y, y);
    field u = subtract(square, ONE), v = add(multiply(square, D), ONE);
    field v3 = multiply(multiply(v, v), v), v7 = multiply(multiply(v3, v3), v);
    /* The power (p - 5) / 8 = 2^252 - 3 leads to a square root of u / v, or of -u / v. */
    field x = multiply(multiply(u, v3), power(multiply(u, v7), 252, 1u << 1));
    uint8_t packed[32];
    field check = multiply(multiply(x, x), v);
    pack(packed, y);
    if ((packed[31] ^ bytes[31]) & 0x7f || memcmp(packed, bytes, 31) != 0) return 0; /* y >= p */
    if (!is_equal(check, u)) {
        if (!is_equal(check, subtract(ZERO, u))) return 0;
        x = multiply(x, ROOT_OF_MINUS_ONE);
    }
    pack(packed, x);
    if ((packed[0] & 1) != bytes[31] >> 7) {
        if (is_equal(x, ZERO)) return 0;
        x = subtract(ZERO, x);
    }
    result->x = x;
    result->y = y;
    result->z = ONE;
    result->t = multiply(x, y);
    return 1;
}

static void pack_point(uint8_t bytes[32], const point *value) {
    field scale = invert(value->z);
    uint8_t x[32];
    pack(x, multiply(value->x, scale));
    pack(bytes, multiply(value->y, scale));
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
    terms[2].x = subtract(ZERO, terms[2].x);
    terms[2].t = subtract(ZERO, terms[2].t);
    terms[3] = add_points(&terms[1], &terms[2]);
    ff_sha512_begin(&hash);
    ff_sha512_add(&hash, signature, 32);
    ff_sha512_add(&hash, key, FF_KEY_BYTES);
    ff_sha512_add(&hash, message, size);
    ff_sha512_end(&hash, digest);
    reduce(k, digest);
    /* The signature is valid if its first half is s * base - k * key. */
    for (int bit = SCALAR_BITS - 1; bit >= 0; bit--) {
        int term = has_bit(s, bit) + 2 * has_bit(k, bit);
        sum = add_points(&sum, &sum);
        if (term > 0) sum = add_points(&sum, &terms[term]);
    }
    pack_point(packed, &sum);
    return memcmp(packed, signature, sizeof packed) == 0;
}
