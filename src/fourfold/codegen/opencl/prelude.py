"""Functions that kernels call and OpenCL lacks, as text before the kernels."""

from __future__ import annotations

from collections.abc import Collection

from fourfold.codegen.c_style.ptx import WARP, ptx_dots, ptx_functions, twice_four_dots
from fourfold.codegen.opencl.dialect import OPENCL

# `exchange` with the extension cl_khr_subgroup_shuffle.
_KHR_EXCHANGE = """
#define exchange(value, apart) sub_group_shuffle_xor(value, apart)
"""

# Prefetches a line into the second-level cache of a core; a no-op on devices other than CPUs.
_FETCH = """
#if defined(__x86_64__) || defined(__aarch64__)
#define fetch_ahead(place) __builtin_prefetch(place, 0, 2)
#else
#define fetch_ahead(place)
#endif
"""

# NVIDIA's compiler accesses four halves one by one; two words at once are equivalent and faster.
_WORDS = """
#define vloada_half4(index, pointer) unpack_halves(((__global const uint2 *)(pointer))[index])
#define vstorea_half4(value, index, pointer) \\
    (((__global uint2 *)(pointer))[index] = pack_halves(value))
"""

# sum[n] += dot product of the four bytes of bytes[n] and the four signed bytes of weights[n], for
# eight or four n: one x86 instruction.
_DOTS = """
static inline void add_dots(int8 *sum, int8 bytes, int8 weights)
{
    __asm__("vpdpbusd %2, %1, %0" : "+x"(*sum) : "x"(bytes), "x"(weights));
}
"""
_FOUR_DOTS = """
static inline void add_few_dots(int4 *sum, int4 bytes, int4 weights)
{
    __asm__("vpdpbusd %2, %1, %0" : "+x"(*sum) : "x"(bytes), "x"(weights));
}
"""

# Rounds sixteen numbers to bytes; `zero` is added, and results below the first byte are clamped.
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

# Rounds 32 numbers to bytes, from four vectors: their first halves go to one address, their second
# halves to another. Packing works per 128-bit half, so no permutation is needed.
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

# Like `store_bytes` for numbers that count from the first byte, with ties rounded up.
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

# Loads eight bytes as floats.
_FLOATS = """
typedef uchar8 any_uchar8 __attribute__((aligned(1)));
static inline float8 floats_of(__global const uchar *from)
{
    const uchar8 bytes = *(__global const any_uchar8 *)from;
    return __builtin_convertvector(__builtin_convertvector(bytes, int8), float8);
}
"""

# PoCL rounds vectors lane by lane, which takes longer than the remaining tail.
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

# Bytes under the windows of two pixels: four channels of each, four neighbours per channel.
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

NVIDIA = {**ptx_functions(OPENCL), "halves_as_words": _WORDS}
ROUND = ("round",)
HALVES = ("pack_halves", "unpack_halves", "halves_as_words")
# The same sums, one by one, with the extension cl_khr_integer_dot_product.
_KHR_FOUR_DOTS = """
static inline void add_few_dots(int4 *sum, int4 bytes, int4 weights)
{
    sum->s0 += dot_4x8packed_us_int(as_uint(bytes.s0), as_uint(weights.s0));
    sum->s1 += dot_4x8packed_us_int(as_uint(bytes.s1), as_uint(weights.s1));
    sum->s2 += dot_4x8packed_us_int(as_uint(bytes.s2), as_uint(weights.s2));
    sum->s3 += dot_4x8packed_us_int(as_uint(bytes.s3), as_uint(weights.s3));
}
"""

X86 = {
    "round": _ROUND,
    "add_dots": _DOTS,
    "add_few_dots": _FOUR_DOTS,
    "store_bytes": _STORE,
    "store_block": _STORE_BLOCK,
    "store_floors": _STORE_UP,
    "floats_of": _FLOATS,
    "pair_taps": _TAPS,
}
# Dot products of bytes by kind of support (`DeviceInfo.dot_products`).
DOTS = {
    "x86": X86,
    "khr": {"add_few_dots": _KHR_FOUR_DOTS, "add_dots": twice_four_dots(OPENCL)},
    "ptx": ptx_dots(OPENCL),  # for NVIDIA GPUs, whose OpenCL lacks the extension
}
# Exchange within a sub-group by kind of support (`DeviceInfo.subgroups`), and its size.
EXCHANGES = {"khr": _KHR_EXCHANGE, "ptx": NVIDIA["exchange"]}
SUBGROUP_SIZES = {"khr": None, "ptx": WARP}
PRELUDES = {**NVIDIA, "fetch_ahead": _FETCH}


HALF_ARITHMETIC = "#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n"


def prelude_text(called: Collection[str], dots: str = "", subgroups: str = "") -> str:
    """Return the text of the functions that kernels call and the language lacks, each once.

    `dots` and `subgroups` are the kinds of support for dot products and exchange.
    """
    names = {*called, "add_few_dots"} if "add_dots" in called else called
    functions = {**DOTS.get(dots, {}), **PRELUDES}
    functions["exchange"] = EXCHANGES.get(subgroups, functions["exchange"])
    return "".join(text for name, text in functions.items() if name in names)


def language_version(*spellings: str) -> str:
    """Return the language version for these kinds of support: the extensions need 3.0."""
    return "3.0" if "khr" in spellings else "1.2"


def build_options(*spellings: str) -> str:
    """Return the build options for these kinds of support."""
    return f"-cl-std=CL{language_version(*spellings)}"
