/* Expands deflate streams as RFC 1951 describes them: stored, fixed and dynamic blocks. */
#include "inflate.h"

#include <string.h>

enum { MAX_BITS = 15, LITERALS = 288, DISTANCES = 30, LENGTH_CODES = 19, END_OF_BLOCK = 256 };

typedef struct reader {
    const uint8_t *at, *end;
    uint8_t *target;
    size_t size, used;
    uint32_t bits;
    unsigned count; /* bits in `bits` */
    int failed;
} reader;

/* A canonical Huffman code: how many codes have each length, and the symbols in code order. */
typedef struct huffman {
    uint16_t counts[MAX_BITS + 1], symbols[LITERALS];
} huffman;

static uint32_t take_bits(reader *from, unsigned count) {
    uint32_t value;
    while (from->count < count) {
        if (from->at == from->end) {
            from->failed = 1;
            return 0;
        }
        from->bits |= (uint32_t)*from->at++ << from->count;
        from->count += 8;
    }
    value = from->bits & ((UINT32_C(1) << count) - 1);
    from->bits >>= count;
    from->count -= count;
    return value;
}

/* Builds a code from the lengths of its symbols; returns 0 if there are too many codes. */
static int build(huffman *code, const uint8_t *lengths, unsigned count) {
    uint16_t starts[MAX_BITS + 1];
    int left = 1;
    memset(code->counts, 0, sizeof code->counts);
    for (unsigned i = 0; i < count; i++) code->counts[lengths[i]]++;
    for (int bits = 1; bits <= MAX_BITS; bits++) {
        left = 2 * left - code->counts[bits];
        if (left < 0) return 0;
    }
    starts[1] = 0;
    for (int bits = 1; bits < MAX_BITS; bits++) {
        starts[bits + 1] = (uint16_t)(starts[bits] + code->counts[bits]);
    }
    for (unsigned i = 0; i < count; i++) {
        if (lengths[i]) code->symbols[starts[lengths[i]]++] = (uint16_t)i;
    }
    return 1;
}

static unsigned decode(reader *from, const huffman *code) {
    int value = 0, first = 0, index = 0;
    for (int bits = 1; bits <= MAX_BITS && !from->failed; bits++) {
        int count = code->counts[bits];
        value |= (int)take_bits(from, 1);
        if (value - first < count) return code->symbols[index + value - first];
        index += count;
        first = (first + count) << 1;
        value <<= 1;
    }
    from->failed = 1;
    return 0;
}

static void copy_match(reader *from, size_t length, size_t distance) {
    if (distance > from->used || length > from->size - from->used) {
        from->failed = 1;
        return;
    }
    /* The source may overlap the target, so that bytes repeat. */
    for (; length > 0; length--, from->used++) {
        from->target[from->used] = from->target[from->used - distance];
    }
}

static void expand_block(reader *from, const huffman *literals, const huffman *distances) {
    static const uint16_t length_base[] = {3,  4,  5,  6,  7,  8,  9,  10, 11,  13,
                                           15, 17, 19, 23, 27, 31, 35, 43, 51,  59,
                                           67, 83, 99, 115, 131, 163, 195, 227, 258};
    static const uint8_t length_bits[] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                          2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
    static const uint16_t distance_base[] = {1,    2,    3,    4,    5,    7,     9,     13,
                                             17,   25,   33,   49,   65,   97,    129,   193,
                                             257,  385,  513,  769,  1025, 1537,  2049,  3073,
                                             4097, 6145, 8193, 12289, 16385, 24577};
    while (!from->failed) {
        unsigned symbol = decode(from, literals), distance;
        size_t length;
        if (from->failed || symbol == END_OF_BLOCK) return;
        if (symbol < END_OF_BLOCK) {
            if (from->used == from->size) from->failed = 1;
            else from->target[from->used++] = (uint8_t)symbol;
            continue;
        }
        symbol -= END_OF_BLOCK + 1;
        if (symbol >= sizeof length_bits) {
            from->failed = 1;
            return;
        }
        length = length_base[symbol] + take_bits(from, length_bits[symbol]);
        distance = decode(from, distances);
        if (from->failed || distance >= DISTANCES) {
            from->failed = 1;
            return;
        }
        copy_match(from, length,
                   distance_base[distance] + take_bits(from, distance < 2 ? 0 : distance / 2 - 1));
    }
}

static void expand_stored(reader *from) {
    uint32_t length, inverted;
    from->bits = from->count = 0; /* the block starts with a whole byte */
    length = take_bits(from, 16);
    inverted = take_bits(from, 16);
    if (from->failed || length != (inverted ^ 0xFFFF) || length > (size_t)(from->end - from->at) ||
        length > from->size - from->used) {
        from->failed = 1;
        return;
    }
    memcpy(from->target + from->used, from->at, length);
    from->at += length;
    from->used += length;
}

static void expand_fixed(reader *from) {
    huffman literals, distances;
    uint8_t lengths[LITERALS];
    memset(lengths, 8, 144);
    memset(lengths + 144, 9, 112);
    memset(lengths + 256, 7, 24);
    memset(lengths + 280, 8, 8);
    build(&literals, lengths, LITERALS);
    memset(lengths, 5, DISTANCES);
    build(&distances, lengths, DISTANCES);
    expand_block(from, &literals, &distances);
}

/* Reads the code lengths of a dynamic block, which are themselves compressed. */
static int read_lengths(reader *from, const huffman *code, uint8_t *lengths, unsigned count) {
    unsigned used = 0;
    while (used < count) {
        unsigned symbol = decode(from, code), repeat = 1;
        uint8_t value = (uint8_t)symbol;
        if (from->failed) return 0;
        if (symbol == 16) {
            if (used == 0) return 0;
            value = lengths[used - 1];
            repeat = 3 + take_bits(from, 2);
        } else if (symbol > 16) {
            value = 0;
            repeat = symbol == 17 ? 3 + take_bits(from, 3) : 11 + take_bits(from, 7);
        }
        if (from->failed || repeat > count - used) return 0;
        memset(lengths + used, value, repeat);
        used += repeat;
    }
    return 1;
}

static void expand_dynamic(reader *from) {
    static const uint8_t order[LENGTH_CODES] = {16, 17, 18, 0, 8,  7, 9,  6, 10, 5,
                                                11, 4,  12, 3, 13, 2, 14, 1, 15};
    huffman code, literals, distances;
    uint8_t lengths[LITERALS + 32] = {0};
    unsigned literal_count = take_bits(from, 5) + 257, distance_count = take_bits(from, 5) + 1;
    unsigned length_count = take_bits(from, 4) + 4;
    if (from->failed || literal_count > 286 || distance_count > DISTANCES) {
        from->failed = 1;
        return;
    }
    for (unsigned i = 0; i < length_count; i++) lengths[order[i]] = (uint8_t)take_bits(from, 3);
    if (from->failed || !build(&code, lengths, LENGTH_CODES) ||
        !read_lengths(from, &code, lengths, literal_count + distance_count) ||
        !build(&literals, lengths, literal_count) ||
        !build(&distances, lengths + literal_count, distance_count)) {
        from->failed = 1;
        return;
    }
    expand_block(from, &literals, &distances);
}

int ff_inflate(const uint8_t *stream, size_t length, uint8_t *target, size_t size) {
    reader from = {stream, stream + length, target, size, 0, 0, 0, 0};
    uint32_t last = 0;
    while (!last && !from.failed) {
        uint32_t kind;
        last = take_bits(&from, 1);
        kind = take_bits(&from, 2);
        if (from.failed) break;
        if (kind == 0) expand_stored(&from);
        else if (kind == 1) expand_fixed(&from);
        else if (kind == 2) expand_dynamic(&from);
        else from.failed = 1;
    }
    return !from.failed && from.used == size;
}
