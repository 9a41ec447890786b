"""What goes before kernels in CUDA C: vectors, and functions for what only some GPUs can do."""

from __future__ import annotations

from collections.abc import Collection

from fourfold.kernel.c_style.ptx import ptx_dots, ptx_functions
from fourfold.kernel.cuda.dialect import CUDA
from fourfold.kernel.cuda.vectors import LANGUAGE_TEXT
from fourfold.kernel.cuda.warpgroups import ARCHITECTURE, warpgroup_functions

# A GPU fetches by itself what many of its warps ask for.
_FETCH = """
#define fetch_ahead(place)
"""
# Local memory is known by a number of 32 bits there. Nothing is read where nothing is to be copied.
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
# Compute capabilities: what all programs need, and those with instructions that came later.
_LEAST, _AMPERE, _HOPPER = "7.5", "8.0", "9.0"
_LATER = frozenset(("matrix_multiply", "filter_multiply", "load_streamed", *_COPIES))
# Quotients and roots as OpenCL has them, which asks for less than the nearest number: both
# languages then give the same bits.
_BUILD_OPTIONS = "--std=c++17 --prec-div=false --prec-sqrt=false"


def prelude_text(called: Collection[str]) -> str:
    """Vectors, and those functions that kernels call."""
    names = {*called, "add_few_dots"} if "add_dots" in called else {*called}
    names |= set() if names.isdisjoint(_WARPGROUPS) else {"matrix_at"}
    functions = "".join(text for name, text in FUNCTIONS.items() if name in names)
    return CUDA.unit(LANGUAGE_TEXT + functions)


def build_options(called: Collection[str]) -> str:
    """The compiler is told of an architecture where its own instructions are used."""
    own = "" if _WARPGROUPS.keys().isdisjoint(called) else f" --gpu-architecture={ARCHITECTURE}"
    return _BUILD_OPTIONS + own


def language_version(called: Collection[str]) -> str:
    """The compute capability that such functions need."""
    if not _WARPGROUPS.keys().isdisjoint(called):
        return _HOPPER
    return _LEAST if _LATER.isdisjoint(called) else _AMPERE
