"""Functions that kernels may call and no OpenCL compiler has: text that goes before the kernels."""

from __future__ import annotations

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

# The value of the neighbouring work-item: 0 and 1 swap, 2 and 3, and so on.
_SWAP = """
static float swap_neighbours(float value)
{
    float other;
    asm volatile("shfl.sync.bfly.b32 %0, %1, 1, 0x1f, 0xffffffff;" : "=f"(other) : "f"(value));
    return other;
}
"""

NVIDIA = {"matrix_multiply": _MULTIPLY, "swap_neighbours": _SWAP}
PRELUDES = NVIDIA
