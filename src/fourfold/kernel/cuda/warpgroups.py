"""Warpgroup products of Hopper GPUs: asynchronous products of matrices in shared memory."""

from __future__ import annotations

from fourfold.device import WARPGROUPS
from fourfold.kernel.c_style.functions import warpgroup_function
from fourfold.kernel.cuda.dialect import CUDA
from fourfold.kernel.statement import WARPGROUP_COLUMNS

ARCHITECTURE = f"{WARPGROUPS}a"  # the target that compilers require for wgmma

# Matrix descriptor: an address, the distance from eight halves of a row to the next eight, and from
# eight rows to the next eight, in units of 16 bytes.
_MATRIX = """
$function unsigned long long matrix_at(const uint4 *place, int pitch)
{
    const uint address = uint(__cvta_generic_to_shared(place));
    return (address & 0x3ffff) >> 4 | (unsigned long long)pitch << 16 | 8ull << 32;
}
"""
_PRODUCTS = {
    "begin_products": 'asm volatile("wgmma.fence.sync.aligned;" ::: "memory")',
    "end_products": 'asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory")',
    "show_copies": 'asm volatile("fence.proxy.async.shared::cta;" ::: "memory")',
}
_AWAIT = """
#define await_products(newest) \\
    asm volatile("wgmma.wait_group.sync.aligned " #newest ";" ::: "memory")
"""


def _multiply(blocks: int) -> str:
    """Return the function that multiplies by `blocks` blocks, with four floats per block."""
    sums = ", ".join(f"float4 *s{n}" for n in range(blocks))
    count = 4 * blocks
    registers = ",".join(f"%{n}" for n in range(count))
    held = ", ".join(f'"+f"(s{n}->{lane})' for n in range(blocks) for lane in "xyzw")
    return f"""
$function void {warpgroup_function(blocks)}({sums},
    const uint4 *rows, int row_pitch, const uint4 *columns, int column_pitch)
{{
    asm volatile("wgmma.mma_async.sync.aligned.m64n{8 * blocks}k16.f32.f16.f16 "
        "{{{registers}}}, %{count}, %{count + 1}, 1, 1, 1, 0, 0;"
        : {held}
        : "l"(matrix_at(rows, row_pitch)), "l"(matrix_at(columns, column_pitch)));
}}
"""


def warpgroup_functions() -> dict[str, str]:
    """Return the functions by name; those that multiply call `matrix_at`."""
    functions = {name: f"\n#define {name}() {text}\n" for name, text in _PRODUCTS.items()}
    functions["await_products"] = _AWAIT
    functions["matrix_at"] = CUDA.fill(_MATRIX)
    return functions | {warpgroup_function(n): CUDA.fill(_multiply(n)) for n in WARPGROUP_COLUMNS}
