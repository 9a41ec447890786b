"""A plan's launches as stages of one launch of OpenCL.

On a GPU groups share stages, a group a unit; on a CPU they claim chunks, and have one work-item.
"""

from __future__ import annotations

from collections.abc import Sequence

from fourfold.device import DeviceInfo
from fourfold.kernel.c_style.grid_barrier import STATE_WORDS
from fourfold.kernel.c_style.joining import join_shared, refuses_sizes, stage_functions
from fourfold.kernel.c_style.sharing import ENTRY, SharedForm
from fourfold.kernel.c_style.stage_clock import GLOBAL_TIMER
from fourfold.kernel.language import JoinedRun, JoinedStages
from fourfold.kernel.opencl.claiming import GROUPS_EACH, STATE_STRIDE, claiming_text
from fourfold.kernel.opencl.claiming_clock import KERNEL_CLOCK, PROCESSOR_TICKS
from fourfold.kernel.opencl.dialect import OPENCL
from fourfold.kernel.opencl.written_stages import WrittenStages
from fourfold.kernel.stage import GPU_ITEMS, Stage, refuses_waits
from fourfold.kernel.stage_table import claimed, fill_table, row_stride
from fourfold.plan.stage_clocks import StageClock


class PersistentKernel:
    """How OpenCL devices run all stages of a plan in one launch."""

    def refuses(self, stages: Sequence[Stage], device: DeviceInfo) -> str | None:
        """Why these stages cannot be one launch, or None."""
        items = 1 if device.is_cpu else GPU_ITEMS
        return refuses_waits(stages, device) or refuses_sizes(stages, items, device)

    def shares(self, device: DeviceInfo) -> bool:
        return not device.is_cpu

    def waits_cheaply(self, device: DeviceInfo) -> bool:
        """Drivers say for what they compile."""
        return all(word in device.version for word in ("x86_64", "linux"))

    def state_bytes(self, stages: int, device: DeviceInfo) -> int:
        if self.shares(device):
            return STATE_WORDS * 4
        parts = device.compute_units
        return (2 + parts // STATE_STRIDE + stages * (1 + parts)) * STATE_STRIDE * 4

    def stage_clock(self, device: DeviceInfo) -> StageClock | None:
        """A GPU's own, the extension's, or that of a processor which the text knows how to read."""
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
    """The kernel whose groups claim chunks of all stages, and what each run of them is."""
    functions, number_of = stage_functions(runs, OPENCL, shares=False)
    kernels = tuple(function.kernel for function in functions)
    stride, joined = row_stride(kernels), []
    for run in runs:
        distributions = [claimed(stage, units) for stage in run]
        called = [number_of[id(stage)] for stage in run]
        table = fill_table(run, called, distributions, stride)
        joined.append(JoinedRun(table, f"{len(run)} stages"))
    text = claiming_text(functions, buffers, clock)
    return JoinedStages(text, ENTRY, (units * GROUPS_EACH,), (1,), tuple(joined), kernels)
