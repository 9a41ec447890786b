"""Functions that kernels may call and no OpenCL compiler has: text that goes before the kernels."""

from __future__ import annotations

from collections.abc import Collection

# D += A x B on one warp's tensor cores: 16 pixels x 8 channels, 16 products each, halves in and
# floats out. Each of the 32 work-items holds two rows' quarter of the result.
_MULTIPLY = """
static void matrix_multiply(float4 *d, uint2 upper, uint2 lower, uint2 b)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d->x), "+f"(d->y), "+f"(d->z), "+f"(d->w)
        : "r"(upper.x), "r"(lower.x), "r"(upper.y), "r"(lower.y), "r"(b.x), "r"(b.y));
}
"""

# The value of the work-item whose number differs in one bit: one apart, 0 and 1 swap, 2 and 3, and
# so on. All of a warp must ask at once.
_EXCHANGE = """
static float exchange(float value, int apart)
{
    float other;
    asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;"
        : "=f"(other) : "f"(value), "r"(apart));
    return other;
}
"""

# The same as the extension cl_khr_subgroup_shuffle has it.
_KHR_EXCHANGE = """
#define exchange(value, apart) sub_group_shuffle_xor(value, apart)
"""

# Brings a line of memory into the second cache of a core. Compilers for other than CPUs do without.
_FETCH = """
#if defined(__x86_64__) || defined(__aarch64__)
#define fetch_ahead(place) __builtin_prefetch(place, 0, 2)
#else
#define fetch_ahead(place)
#endif
"""

# Four floats, rounded to halves, in two words.
_PACK = """
static uint2 pack_halves(float4 value)
{
    uint2 packed;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed.x) : "f"(value.y), "f"(value.x));
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed.y) : "f"(value.w), "f"(value.z));
    return packed;
}
"""

# The other way round.
_UNPACK = """
static float4 unpack_halves(uint2 packed)
{
    float4 value;
    asm("{ .reg .b16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h; }"
        : "=f"(value.x), "=f"(value.y) : "r"(packed.x));
    asm("{ .reg .b16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h; }"
        : "=f"(value.z), "=f"(value.w) : "r"(packed.y));
    return value;
}
"""

# Two words, or zeros: a read that does not happen instead of a branch around it.
_LOAD_IF = """
static uint2 load_if(__global const uint2 *from, int inside)
{
    uint2 words;
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %3, 0; mov.b32 %0, 0; mov.b32 %1, 0;"
        "  @p ld.global.v2.u32 {%0, %1}, [%2]; }"
        : "=&r"(words.x), "=&r"(words.y) : "l"(from), "r"(inside));
    return words;
}
"""

# Four words, or zeros.
_LOAD_TWO_IF = """
static uint4 load_two_if(__global const half *from, int inside)
{
    uint4 words;
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %5, 0;"
        "  mov.b32 %0, 0; mov.b32 %1, 0; mov.b32 %2, 0; mov.b32 %3, 0;"
        "  @p ld.global.v4.u32 {%0, %1, %2, %3}, [%4]; }"
        : "=&r"(words.x), "=&r"(words.y), "=&r"(words.z), "=&r"(words.w)
        : "l"(from), "r"(inside));
    return words;
}
"""

# What the work-item of the same quarter in the line before has, or in the next one.
_FROM_LAST = """
static uint2 from_last(uint2 words)
{
    uint2 theirs;
    asm volatile("shfl.sync.up.b32 %0, %1, 4, 0, 0xffffffff;" : "=r"(theirs.x) : "r"(words.x));
    asm volatile("shfl.sync.up.b32 %0, %1, 4, 0, 0xffffffff;" : "=r"(theirs.y) : "r"(words.y));
    return theirs;
}
"""
_FROM_NEXT = """
static uint2 from_next(uint2 words)
{
    uint2 theirs;
    asm volatile("shfl.sync.down.b32 %0, %1, 4, 0x1f, 0xffffffff;"
        : "=r"(theirs.x) : "r"(words.x));
    asm volatile("shfl.sync.down.b32 %0, %1, 4, 0x1f, 0xffffffff;"
        : "=r"(theirs.y) : "r"(words.y));
    return theirs;
}
"""

# Two words that make room for others first: what a run reads once must not drive out of the cache
# what it needs again, its instructions among that.
_LOAD_STREAMED = """
static uint2 load_streamed(__global const half *from)
{
    uint2 words;
    asm("{ .reg .b64 p; createpolicy.fractional.L2::evict_first.b64 p, 1.0;"
        "  ld.global.nc.L2::cache_hint.v2.u32 {%0, %1}, [%2], p; }"
        : "=r"(words.x), "=r"(words.y) : "l"(from));
    return words;
}
"""

# D += A x diagonal + B x diagonal: 16 pixels x 8 channels under two taps of a filter, each channel
# times its own weight. A weight comes in one half of a word and goes where `pick` says, which is
# nowhere for most work-items.
_FILTER = """
static void filter_multiply(
    float4 *d, uint upper_a, uint lower_a, uint upper_b, uint lower_b, int a, int b, int pick)
{
    uint first, second;
    asm("prmt.b32 %0, %1, 0, %2;" : "=r"(first) : "r"(a), "r"(pick));
    asm("prmt.b32 %0, %1, 0, %2;" : "=r"(second) : "r"(b), "r"(pick));
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d->x), "+f"(d->y), "+f"(d->z), "+f"(d->w)
        : "r"(upper_a), "r"(lower_a), "r"(upper_b), "r"(lower_b), "r"(first), "r"(second));
}
"""

# This compiler reads and writes four halves one by one; two words at once do as well.
_WORDS = """
#define vloada_half4(index, pointer) unpack_halves(((__global const uint2 *)(pointer))[index])
#define vstorea_half4(value, index, pointer) \\
    (((__global uint2 *)(pointer))[index] = pack_halves(value))
"""

# sum[n] += the four bytes of bytes[n] times the four signed bytes of weights[n], for each of eight
# or four n: one instruction of x86 processors.
_DOTS = """
static inline void add_dots(int8 *sum, int8 bytes, int8 weights)
{
    __asm__("vpdpbusd %2, %1, %0" : "+x"(*sum) : "x"(bytes), "x"(weights));
}
"""
_FEW_DOTS = """
static inline void add_few_dots(int4 *sum, int4 bytes, int4 weights)
{
    __asm__("vpdpbusd %2, %1, %0" : "+x"(*sum) : "x"(bytes), "x"(weights));
}
"""

# Sixteen numbers, rounded, as bytes: zero is where nought goes, and what lies below the first byte
# becomes it.
_STORE = """
typedef uchar16 any_uchar16 __attribute__((aligned(1)));
static inline void store_bytes(__global uchar *to, float8 a, float8 b, float high, short zero)
{
    const float8 most = (float8)(high);
    const int8 c = __builtin_ia32_cvtps2dq256(a < most ? a : most);
    const int8 d = __builtin_ia32_cvtps2dq256(b < most ? b : most);
    const short16 packed = __builtin_ia32_packssdw256(c, d);
    const short16 e = __builtin_ia32_paddsw256(packed, (short16)(zero));
    const char16 f = __builtin_ia32_packuswb128(e.s012389ab, e.s4567cdef);
    *(__global any_uchar16 *)to = as_uchar16(f);
}
"""

# Thirty-two numbers in the same way, from four vectors: their first halves, and somewhere else
# their second halves. Packing works on halves, so nothing has to change places.
_STORE_BLOCK = """
typedef uchar16 side_uchar16 __attribute__((aligned(1)));
static inline void store_block(
    __global uchar *to, int apart,
    float8 a, float8 b, float8 c, float8 d, float high, short zero)
{
    const float8 most = (float8)(high);
    const int8 e = __builtin_ia32_cvtps2dq256(a < most ? a : most);
    const int8 f = __builtin_ia32_cvtps2dq256(b < most ? b : most);
    const int8 g = __builtin_ia32_cvtps2dq256(c < most ? c : most);
    const int8 h = __builtin_ia32_cvtps2dq256(d < most ? d : most);
    const short16 near = __builtin_ia32_packssdw256(e, f), far = __builtin_ia32_packssdw256(g, h);
    const short16 i = __builtin_ia32_paddsw256(near, (short16)(zero));
    const short16 j = __builtin_ia32_paddsw256(far, (short16)(zero));
    const int8 both = __builtin_astype(__builtin_ia32_packuswb256(i, j), int8);
    *(__global side_uchar16 *)to = as_uchar16(both.lo);
    *(__global side_uchar16 *)(to + apart) = as_uchar16(both.hi);
}
"""

# The same for numbers that count from the first byte on, where ties go up.
_STORE_UP = """
typedef uchar16 each_uchar16 __attribute__((aligned(1)));
static inline void store_floors(__global uchar *to, float8 a, float8 b, float high)
{
    const float8 most = (float8)(high), tie = (float8)(0.5f);
    const int8 c = __builtin_ia32_cvttps2dq256((a < most ? a : most) + tie);
    const int8 d = __builtin_ia32_cvttps2dq256((b < most ? b : most) + tie);
    const short16 e = __builtin_ia32_packssdw256(c, d);
    const char16 f = __builtin_ia32_packuswb128(e.s012389ab, e.s4567cdef);
    *(__global each_uchar16 *)to = as_uchar16(f);
}
"""

# Eight bytes as numbers.
_FLOATS = """
typedef uchar8 any_uchar8 __attribute__((aligned(1)));
static inline float8 floats_of(__global const uchar *from)
{
    const uchar8 bytes = *(__global const any_uchar8 *)from;
    return __builtin_convertvector(__builtin_convertvector(bytes, int8), float8);
}
"""

# PoCL rounds vectors lane by lane, which takes longer than all the rest of a tail.
_ROUND = """
#define EACH static inline __attribute__((overloadable))
EACH float4 x86_nearest(float4 a) { const float4 b = __builtin_ia32_roundps(a, 8); return b; }
EACH float4 x86_below(float4 a) { const float4 b = __builtin_ia32_roundps(a, 9); return b; }
EACH float8 x86_nearest(float8 a) { const float8 b = __builtin_ia32_roundps256(a, 8); return b; }
EACH float8 x86_below(float8 a) { const float8 b = __builtin_ia32_roundps256(a, 9); return b; }
EACH float x86_nearest(float a) { return x86_nearest((float4)(a)).x; }
EACH float x86_below(float a) { return x86_below((float4)(a)).x; }
EACH float2 x86_nearest(float2 a) { return x86_nearest((float4)(a, a)).lo; }
EACH float2 x86_below(float2 a) { return x86_below((float4)(a, a)).lo; }
#define rint(x) x86_nearest(x)
#define floor(x) x86_below(x)
"""

# What lies under the windows of two pixels: of each four channels, four neighbours a channel.
_TAPS = """
typedef uchar16 near_uchar16 __attribute__((aligned(4)));
typedef uchar uchar32 __attribute__((ext_vector_type(32)));
static inline int8 pair_taps(const int *from, int step)
{
    const uchar16 a = *(const near_uchar16 *)from, b = *(const near_uchar16 *)(from + step);
    const uchar32 both = __builtin_shufflevector(a, b,
        0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15,
        16, 20, 24, 28, 17, 21, 25, 29, 18, 22, 26, 30, 19, 23, 27, 31);
    return __builtin_astype(both, int8);
}
"""

NVIDIA = {
    "matrix_multiply": _MULTIPLY,
    "filter_multiply": _FILTER,
    "load_if": _LOAD_IF,
    "load_streamed": _LOAD_STREAMED,
    "load_two_if": _LOAD_TWO_IF,
    "from_last": _FROM_LAST,
    "from_next": _FROM_NEXT,
    "exchange": _EXCHANGE,
    "pack_halves": _PACK,
    "unpack_halves": _UNPACK,
    "halves_as_words": _WORDS,
}
ROUND = ("round",)
HALVES = ("pack_halves", "unpack_halves", "halves_as_words")
# The same sums, one by one, as the extension cl_khr_integer_dot_product has them.
_KHR_FEW = """
static inline void add_few_dots(int4 *sum, int4 bytes, int4 weights)
{
    sum->s0 += dot_4x8packed_us_int(as_uint(bytes.s0), as_uint(weights.s0));
    sum->s1 += dot_4x8packed_us_int(as_uint(bytes.s1), as_uint(weights.s1));
    sum->s2 += dot_4x8packed_us_int(as_uint(bytes.s2), as_uint(weights.s2));
    sum->s3 += dot_4x8packed_us_int(as_uint(bytes.s3), as_uint(weights.s3));
}
"""

# And as NVIDIA's GPUs do, whose OpenCL knows no such extension.
_PTX_FEW = """
static inline int add_dot(int sum, int bytes, int weights)
{
    asm("dp4a.u32.s32 %0, %1, %2, %0;" : "+r"(sum) : "r"(bytes), "r"(weights));
    return sum;
}
static inline void add_few_dots(int4 *sum, int4 bytes, int4 weights)
{
    sum->s0 = add_dot(sum->s0, bytes.s0, weights.s0);
    sum->s1 = add_dot(sum->s1, bytes.s1, weights.s1);
    sum->s2 = add_dot(sum->s2, bytes.s2, weights.s2);
    sum->s3 = add_dot(sum->s3, bytes.s3, weights.s3);
}
"""

# Eight sums are twice four.
_TWICE = """
static inline void add_dots(int8 *sum, int8 bytes, int8 weights)
{
    int4 low = sum->lo, high = sum->hi;
    add_few_dots(&low, bytes.lo, weights.lo);
    add_few_dots(&high, bytes.hi, weights.hi);
    *sum = (int8)(low, high);
}
"""

X86 = {
    "round": _ROUND,
    "add_dots": _DOTS,
    "add_few_dots": _FEW_DOTS,
    "store_bytes": _STORE,
    "store_block": _STORE_BLOCK,
    "store_floors": _STORE_UP,
    "floats_of": _FLOATS,
    "pair_taps": _TAPS,
}
# Dot products of bytes, by who spells them out (`DeviceInfo.dot_products`).
DOTS = {
    "x86": X86,
    "khr": {"add_few_dots": _KHR_FEW, "add_dots": _TWICE},
    "ptx": {"add_few_dots": _PTX_FEW, "add_dots": _TWICE},
}
# Exchange between the work-items of a sub-group (`DeviceInfo.subgroups`), and how many they are.
EXCHANGES = {"khr": _KHR_EXCHANGE, "ptx": _EXCHANGE}
SUBGROUP_SIZES = {"khr": None, "ptx": 32}
PRELUDES = {**NVIDIA, "fetch_ahead": _FETCH}


HALF_ARITHMETIC = "#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n"


def prelude_text(called: Collection[str], dots: str = "", subgroups: str = "") -> str:
    """The text of the functions that kernels call and the language lacks, each once.

    `dots` says who spells out dot products, `subgroups` who exchanges numbers.
    """
    names = {*called, "add_few_dots"} if "add_dots" in called else called
    known = {**DOTS.get(dots, {}), **PRELUDES}
    known["exchange"] = EXCHANGES.get(subgroups, known["exchange"])
    return "".join(text for name, text in known.items() if name in names)


def language_version(*spellings: str) -> str:
    """The language of a program that spells some things so: the extensions came late."""
    return "3.0" if "khr" in spellings else "1.2"


def build_options(*spellings: str) -> str:
    """How such a program is built."""
    return f"-cl-std=CL{language_version(*spellings)}"
