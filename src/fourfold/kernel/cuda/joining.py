"""A plan's launches as stages of one launch of CUDA: groups share stages, a group a unit."""

from __future__ import annotations

from collections.abc import Sequence

from fourfold.device import DeviceInfo
from fourfold.kernel.c_style.grid_barrier import STATE_WORDS
from fourfold.kernel.c_style.joining import join_shared, refuses_sizes
from fourfold.kernel.c_style.sharing import SharedForm
from fourfold.kernel.c_style.stage_clock import GLOBAL_TIMER
from fourfold.kernel.cuda.dialect import CUDA
from fourfold.kernel.cuda.stage_calls import CalledStages
from fourfold.kernel.language import JoinedStages
from fourfold.kernel.stage import GPU_ITEMS, Stage
from fourfold.plan.stage_clocks import StageClock


class PersistentKernel:
    """How CUDA's devices run all stages of a plan in one launch."""

    def refuses(self, stages: Sequence[Stage], device: DeviceInfo) -> str | None:
        """Why these stages cannot be one launch, or None."""
        if not device.resident:
            return "groups of this device cannot wait for each other in a known way"
        return refuses_sizes(stages, GPU_ITEMS, device)

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
