"""Text before kernels in CUDA C: vectors, and functions for instructions of newer GPUs."""

from __future__ import annotations

from collections.abc import Collection

from fourfold.kernel.c_style.ptx import ptx_dots, ptx_functions
from fourfold.kernel.cuda.dialect import CUDA
from fourfold.kernel.cuda.vectors import LANGUAGE_TEXT
from fourfold.kernel.cuda.warpgroups import ARCHITECTURE, warpgroup_functions

# The hardware prefetches data that many warps request.
_FETCH = """
#define fetch_ahead(place)
"""
# Shared memory has 32-bit addresses. With `inside` 0, nothing is read and zeros are written.
_COPIES = {
    "copy_ahead": """
static __device__ __forceinline__ void copy_ahead(uint2 *to, const uint2 *from, int inside)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;"
        :: "r"(uint(__cvta_generic_to_shared(to))), "l"(from), "r"(inside ? 8 : 0) : "memory");
}
static __device__ __forceinline__ void copy_ahead(uint4 *to, const uint4 *from, int inside)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
        :: "r"(uint(__cvta_generic_to_shared(to))), "l"(from), "r"(inside ? 16 : 0) : "memory");
}
""",
    "end_copies": """
#define end_copies() asm volatile("cp.async.commit_group;" ::: "memory")
""",
    "await_copies": """
#define await_copies(newest) asm volatile("cp.async.wait_group " #newest ";" ::: "memory")
""",
}
_WARPGROUPS = warpgroup_functions()
FUNCTIONS = {**ptx_dots(CUDA), **ptx_functions(CUDA), **_COPIES, **_WARPGROUPS}
FUNCTIONS["fetch_ahead"] = _FETCH
# Compute capabilities: the minimum for all programs, and those of newer instructions.
_MINIMUM, _AMPERE, _HOPPER = "7.5", "8.0", "9.0"
_LATER = frozenset(("matrix_multiply", "filter_multiply", "load_streamed", *_COPIES))
# Division and square root with the accuracy of OpenCL, which is less than correct rounding: both
# languages then give the same bits.
_BUILD_OPTIONS = "--std=c++17 --prec-div=false --prec-sqrt=false"


def prelude_text(called: Collection[str]) -> str:
    """Return the vector types and the functions that kernels call."""
    names = {*called, "add_few_dots"} if "add_dots" in called else {*called}
    names |= set() if names.isdisjoint(_WARPGROUPS) else {"matrix_at"}
    functions = "".join(text for name, text in FUNCTIONS.items() if name in names)
    return CUDA.unit(LANGUAGE_TEXT + functions)


def build_options(called: Collection[str]) -> str:
    """Return compiler options; an architecture is named only if its instructions are used."""
    own = "" if _WARPGROUPS.keys().isdisjoint(called) else f" --gpu-architecture={ARCHITECTURE}"
    return _BUILD_OPTIONS + own


def language_version(called: Collection[str]) -> str:
    """Return the compute capability that these functions need."""
    if not _WARPGROUPS.keys().isdisjoint(called):
        return _HOPPER
    return _MINIMUM if _LATER.isdisjoint(called) else _AMPERE
