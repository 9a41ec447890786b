"""OpenCL C as a kernel language, and its persistent kernels.

On a GPU, groups share stages, one group per compute unit. On a CPU, groups have one work-item and
claim chunks.
"""

from __future__ import annotations

from collections.abc import Sequence

from fourfold.codegen.c_style.functions import function_of
from fourfold.codegen.c_style.grid_barrier import GLOBAL_TIMER, STATE_WORDS
from fourfold.codegen.c_style.renderer import render
from fourfold.codegen.c_style.sharing import (
    ENTRY,
    GroupMemory,
    SharedForm,
    StageCalls,
    find_size_conflict,
    join_shared,
    stage_functions,
)
from fourfold.codegen.c_style.stage_function import StageFunction
from fourfold.codegen.capabilities import Capabilities
from fourfold.codegen.context import Target
from fourfold.codegen.kernel import Kernel
from fourfold.codegen.language import JoinedRun, JoinedStages, Language, Persistent, Prelude
from fourfold.codegen.opencl.claiming import (
    GROUPS_EACH,
    KERNEL_CLOCK,
    PROCESSOR_TICKS,
    STATE_STRIDE,
    claiming_text,
)
from fourfold.codegen.opencl.dialect import OPENCL
from fourfold.codegen.opencl.prelude import (
    DOTS,
    HALF_ARITHMETIC,
    HALVES,
    ROUND,
    SUBGROUP_SIZES,
    build_options,
    language_version,
    prelude_text,
)
from fourfold.codegen.stage import GPU_ITEMS, Stage, find_wait_conflict
from fourfold.codegen.stage_table import claim_stage, fill_table, row_stride
from fourfold.codegen.walk import Node
from fourfold.device import DeviceInfo
from fourfold.plan.stage_clocks import StageClock
from fourfold.types import DType


class InlinedStages(StageCalls):
    """Inlines each stage where it is called."""

    def base(self, number: str) -> str:
        return f"bases[{number}]"

    def texts(
        self, stages: Sequence[StageFunction], rounds: Sequence[str], memory: GroupMemory
    ) -> list[str]:
        return [stage.named_text for stage in stages]

    def declarations(self, memory: GroupMemory) -> list[str]:
        pool = [f"__local float4 pool[{memory.pool}];"] if memory.pool else []
        rows = f"__local int rows[{2 * memory.stride}];"
        return [*pool, rows, f"__global uchar *__local bases[{memory.buffers}];"]

    def launch_bytes(self, memory: GroupMemory) -> int:
        return 0

    def case(self, number: int, rounds: str) -> str:
        return f"        case {number}:\n{rounds}\n            break;"

    def end(self) -> list[str]:
        return []


class PersistentKernel:
    """Runs all stages of a plan in one launch on OpenCL devices."""

    def refuses(self, stages: Sequence[Stage], device: DeviceInfo) -> str | None:
        """Return why these stages cannot be one launch, or None."""
        items = 1 if device.is_cpu else GPU_ITEMS
        return find_wait_conflict(stages, device) or find_size_conflict(stages, items, device)

    def shares(self, device: DeviceInfo) -> bool:
        return not device.is_cpu

    def waits_cheaply(self, device: DeviceInfo) -> bool:
        """Return whether the driver compiles for x86-64 Linux, where a waiting group sleeps."""
        return all(word in device.version for word in ("x86_64", "linux"))

    def state_bytes(self, stages: int, device: DeviceInfo) -> int:
        if self.shares(device):
            return STATE_WORDS * 4
        parts = device.compute_units
        return (2 + parts // STATE_STRIDE + stages * (1 + parts)) * STATE_STRIDE * 4

    def stage_clock(self, device: DeviceInfo) -> StageClock | None:
        """Return the clock of a GPU, of the extension, or of a processor that the text supports."""
        if self.shares(device):
            return GLOBAL_TIMER
        if device.claims.get("kernel_clock"):
            return KERNEL_CLOCK
        return PROCESSOR_TICKS if self.waits_cheaply(device) else None

    def join(
        self,
        runs: Sequence[Sequence[Stage]],
        device: DeviceInfo,
        buffers: int,
        host_protocol: int | None,
        clock: StageClock | None = None,
    ) -> JoinedStages:
        if self.shares(device):
            form = SharedForm(OPENCL, InlinedStages(), buffers, host_protocol, clock is not None)
            return join_shared(runs, device.compute_units, form)
        return _join_claimed(runs, device.compute_units, buffers, clock)


def _join_claimed(
    runs: Sequence[Sequence[Stage]], units: int, buffers: int, clock: StageClock | None
) -> JoinedStages:
    """Build the kernel whose groups claim chunks of all stages, and the table of each run."""
    functions, number_of = stage_functions(runs, OPENCL, shares=False)
    kernels = tuple(function.kernel for function in functions)
    stride, joined = row_stride(kernels), []
    for run in runs:
        distributions = [claim_stage(stage, units) for stage in run]
        called = [number_of[id(stage)] for stage in run]
        table = fill_table(run, called, distributions, stride)
        joined.append(JoinedRun(table, f"{len(run)} stages"))
    text = claiming_text(functions, buffers, clock)
    return JoinedStages(text, ENTRY, (units * GROUPS_EACH,), (1,), tuple(joined), kernels)


_CAPABILITIES = Capabilities(
    language="OpenCL C",
    images=True,
    host_addresses=True,
    matrix_fragments=True,
    dot_products=frozenset(DOTS),
    subgroups=SUBGROUP_SIZES,
)


class OpenCL:
    """OpenCL C 1.2, or 3.0 if kernels need one of its extensions."""

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
        return render(kernel, entry, OPENCL, images)

    def prelude(self, special: Sequence[Node], target: Target) -> Prelude:
        device, options = target.device, target.options
        half = options.real == "half"
        called = {function_of(node) for node in special}
        uses_words = device.matrix_units and options.storage is DType.F16 and not half
        also = {*(HALVES if uses_words else ()), *(ROUND if options.counts_bytes else ())}
        text = prelude_text(called | also, device.dot_products, device.subgroups)
        # OpenCL C 3.0 is required only if kernels use the extensions.
        dots = device.dot_products if options.counts_bytes else ""
        exchange = device.subgroups if "exchange" in called else ""
        rounds = options.counts_bytes and device.packs_bytes
        facts = {"matrix_units": uses_words, "packs_bytes": rounds}
        return Prelude(
            text=(HALF_ARITHMETIC if half else "") + text,
            build_options=build_options(dots, exchange),
            version=language_version(dots, exchange),
            facts=frozenset(name for name, used in facts.items() if used),
        )


LANGUAGE: Language = OpenCL()
