"""NVIDIA instructions as inline assembly, in functions shared by the languages for its GPUs."""

from __future__ import annotations

from fourfold.codegen.c_style.dialect import Dialect

# D += A x B on the tensor cores of one warp: 16 pixels x 8 channels, 16 products each, fp16 inputs
# and fp32 results. Each of the 32 work-items holds a quarter of two rows of the result.
_MULTIPLY = """
$function void matrix_multiply(float4 *d, uint2 upper, uint2 lower, uint2 b)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d->x), "+f"(d->y), "+f"(d->z), "+f"(d->w)
        : "r"(upper.x), "r"(lower.x), "r"(upper.y), "r"(lower.y), "r"(b.x), "r"(b.y));
}
"""

# The value of the work-item whose number differs in one bit: with `apart` 1, work-items 0 and 1
# swap, 2 and 3, and so on. All work-items of a warp must call it together.
_EXCHANGE = """
$function float exchange(float value, int apart)
{
    float other;
    asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;"
        : "=f"(other) : "f"(value), "r"(apart));
    return other;
}
"""

# Rounds four floats to halves, in two words.
_PACK = """
$function uint2 pack_halves(float4 value)
{
    uint2 packed;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed.x) : "f"(value.y), "f"(value.x));
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed.y) : "f"(value.w), "f"(value.z));
    return packed;
}
"""

# Unpacks four halves from two words to floats.
_UNPACK = """
$function float4 unpack_halves(uint2 packed)
{
    float4 value;
    asm("{ .reg .b16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h; }"
        : "=f"(value.x), "=f"(value.y) : "r"(packed.x));
    asm("{ .reg .b16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h; }"
        : "=f"(value.z), "=f"(value.w) : "r"(packed.y));
    return value;
}
"""

# Loads two words, or zeros: a predicated load instead of a branch.
_LOAD_IF = """
$function uint2 load_if(${global}const uint2 *from, int inside)
{
    uint2 words;
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %3, 0; mov.b32 %0, 0; mov.b32 %1, 0;"
        "  @p ld.global.v2.u32 {%0, %1}, [%2]; }"
        : "=&r"(words.x), "=&r"(words.y) : "l"(from), "r"(inside));
    return words;
}
"""

# Loads four words, or zeros.
_LOAD_TWO_IF = """
$function uint4 load_two_if(${global}const half *from, int inside)
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

# The words of the work-item with the same quarter in the previous line, or in the next one.
_FROM_LAST = """
$function uint2 from_last(uint2 words)
{
    uint2 theirs;
    asm volatile("shfl.sync.up.b32 %0, %1, 4, 0, 0xffffffff;" : "=r"(theirs.x) : "r"(words.x));
    asm volatile("shfl.sync.up.b32 %0, %1, 4, 0, 0xffffffff;" : "=r"(theirs.y) : "r"(words.y));
    return theirs;
}
"""
_FROM_NEXT = """
$function uint2 from_next(uint2 words)
{
    uint2 theirs;
    asm volatile("shfl.sync.down.b32 %0, %1, 4, 0x1f, 0xffffffff;"
        : "=r"(theirs.x) : "r"(words.x));
    asm volatile("shfl.sync.down.b32 %0, %1, 4, 0x1f, 0xffffffff;"
        : "=r"(theirs.y) : "r"(words.y));
    return theirs;
}
"""

# Loads two words with the evict-first policy: data that a run reads once must not evict data, or
# instructions, that it needs again.
_LOAD_STREAMED = """
$function uint2 load_streamed(${global}const half *from)
{
    uint2 words;
    asm("{ .reg .b64 p; createpolicy.fractional.L2::evict_first.b64 p, 1.0;"
        "  ld.global.nc.L2::cache_hint.v2.u32 {%0, %1}, [%2], p; }"
        : "=r"(words.x), "=r"(words.y) : "l"(from));
    return words;
}
"""

# D += A x diagonal + B x diagonal: 16 pixels x 8 channels under two taps of a filter, each channel
# times its own weight. A weight arrives in one half of a word and is placed as `pick` says, which
# is nowhere for most work-items.
_FILTER = """
$function void filter_multiply(
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

# sum[n] += dot product of the four bytes of bytes[n] and the four signed bytes of weights[n], for
# four n.
_FOUR_DOTS = """
$inline int add_dot(int sum, int bytes, int weights)
{
    asm("dp4a.u32.s32 %0, %1, %2, %0;" : "+r"(sum) : "r"(bytes), "r"(weights));
    return sum;
}
$inline void add_few_dots(int4 *sum, int4 bytes, int4 weights)
{
    sum->$s0 = add_dot(sum->$s0, bytes.$s0, weights.$s0);
    sum->$s1 = add_dot(sum->$s1, bytes.$s1, weights.$s1);
    sum->$s2 = add_dot(sum->$s2, bytes.$s2, weights.$s2);
    sum->$s3 = add_dot(sum->$s3, bytes.$s3, weights.$s3);
}
"""

# Eight sums, computed as twice four.
_EIGHT_DOTS = """
$inline void add_dots(int8 *sum, int8 bytes, int8 weights)
{
    int4 low = sum->lo, high = sum->hi;
    add_few_dots(&low, bytes.lo, weights.lo);
    add_few_dots(&high, bytes.hi, weights.hi);
    *sum = $int8(low, high);
}
"""

_FUNCTIONS = {
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
}
_DOT_FUNCTIONS = {"add_few_dots": _FOUR_DOTS, "add_dots": _EIGHT_DOTS}
WARP = 32


def ptx_functions(dialect: Dialect) -> dict[str, str]:
    """Return the functions by name: for warps, tensor cores, and halves packed in words."""
    return {name: dialect.fill(text) for name, text in _FUNCTIONS.items()}


def ptx_dots(dialect: Dialect) -> dict[str, str]:
    """Return the functions for dot products of bytes that use dp4a."""
    return {name: dialect.fill(text) for name, text in _DOT_FUNCTIONS.items()}


def twice_four_dots(dialect: Dialect) -> str:
    """Return a function for eight sums that calls the function for four."""
    return dialect.fill(_EIGHT_DOTS)
