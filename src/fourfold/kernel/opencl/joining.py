"""Joins a plan's launches into one OpenCL launch.

On a GPU, groups share stages, one group per compute unit. On a CPU, groups have one work-item and
claim chunks.
"""

from __future__ import annotations

from collections.abc import Sequence

from fourfold.device import DeviceInfo
from fourfold.kernel.c_style.grid_barrier import STATE_WORDS
from fourfold.kernel.c_style.joining import find_size_conflict, join_shared, stage_functions
from fourfold.kernel.c_style.sharing import ENTRY, SharedForm
from fourfold.kernel.c_style.stage_clock import GLOBAL_TIMER
from fourfold.kernel.language import JoinedRun, JoinedStages
from fourfold.kernel.opencl.claiming import GROUPS_EACH, STATE_STRIDE, claiming_text
from fourfold.kernel.opencl.claiming_clock import KERNEL_CLOCK, PROCESSOR_TICKS
from fourfold.kernel.opencl.dialect import OPENCL
from fourfold.kernel.opencl.written_stages import WrittenStages
from fourfold.kernel.stage import GPU_ITEMS, Stage, find_wait_conflict
from fourfold.kernel.stage_table import claim_stage, fill_table, row_stride
from fourfold.plan.stage_clocks import StageClock


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
            form = SharedForm(OPENCL, WrittenStages(), buffers, host_protocol, clock is not None)
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
