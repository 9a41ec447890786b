"""CUDA C as a kernel language, and its persistent kernel: one group per multiprocessor.

Hopper GPUs have warpgroup products: four warps multiply matrices in shared memory asynchronously.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from fourfold.codegen.c_style.functions import function_of, warpgroup_function
from fourfold.codegen.c_style.grid_barrier import GLOBAL_TIMER, STATE_WORDS
from fourfold.codegen.c_style.ptx import WARP, ptx_dots, ptx_functions
from fourfold.codegen.c_style.renderer import render
from fourfold.codegen.c_style.sharing import SharedForm, find_size_conflict, join_shared
from fourfold.codegen.capabilities import Capabilities
from fourfold.codegen.context import Target
from fourfold.codegen.cuda.dialect import CUDA
from fourfold.codegen.cuda.stage_calls import CalledStages
from fourfold.codegen.cuda.vectors import LANGUAGE_TEXT
from fourfold.codegen.kernel import Kernel
from fourfold.codegen.language import JoinedStages, Language, Persistent, Prelude
from fourfold.codegen.stage import GPU_ITEMS, Stage
from fourfold.codegen.statement import WARPGROUP_COLUMNS
from fourfold.codegen.walk import Node
from fourfold.device import WARPGROUPS, DeviceInfo
from fourfold.plan.stage_clocks import StageClock

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


class PersistentKernel:
    """Runs all stages of a plan in one launch on CUDA devices."""

    def refuses(self, stages: Sequence[Stage], device: DeviceInfo) -> str | None:
        """Return why these stages cannot be one launch, or None."""
        if not device.resident:
            return "this device does not guarantee that groups can wait for each other"
        return find_size_conflict(stages, GPU_ITEMS, device)

    def shares(self, device: DeviceInfo) -> bool:
        return True

    def waits_cheaply(self, device: DeviceInfo) -> bool:
        return False

    def state_bytes(self, stages: int, device: DeviceInfo) -> int:
        return STATE_WORDS * 4

    def stage_clock(self, device: DeviceInfo) -> StageClock | None:
        return GLOBAL_TIMER

    def join(
        self,
        runs: Sequence[Sequence[Stage]],
        device: DeviceInfo,
        buffers: int,
        host_protocol: int | None,
        clock: StageClock | None = None,
    ) -> JoinedStages:
        clocked = clock is not None
        form = SharedForm(CUDA, CalledStages(clocked), buffers, host_protocol, clocked)
        return join_shared(runs, device.compute_units, form)


_CAPABILITIES = Capabilities(
    language="CUDA C",
    host_addresses=True,
    matrix_fragments=True,
    async_copies=True,
    warpgroups=True,
    declared_local_memory=CUDA.declared_local_memory,
    dot_products=frozenset(("", "ptx")),
    subgroups={"ptx": WARP},
)


class CudaLanguage:
    """CUDA C for NVRTC; its version is the compute capability that a program needs."""

    @property
    def capabilities(self) -> Capabilities:
        return _CAPABILITIES

    @property
    def persistent(self) -> Persistent | None:
        return PersistentKernel()

    def render(
        self,
        kernel: Kernel,
        entry: str,
        images: frozenset[str] = frozenset(),
        buffers: Sequence[int] = (),
    ) -> str:
        return render(kernel, entry, CUDA)

    def prelude(self, special: Sequence[Node], target: Target) -> Prelude:
        called = {function_of(node) for node in special}
        return Prelude(prelude_text(called), build_options(called), language_version(called))


LANGUAGE: Language = CudaLanguage()
