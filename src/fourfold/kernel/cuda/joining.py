"""Joins a plan's launches into one CUDA launch, with one group per multiprocessor."""

from __future__ import annotations

from collections.abc import Sequence

from fourfold.device import DeviceInfo
from fourfold.kernel.c_style.grid_barrier import STATE_WORDS
from fourfold.kernel.c_style.joining import find_size_conflict, join_shared
from fourfold.kernel.c_style.sharing import SharedForm
from fourfold.kernel.c_style.stage_clock import GLOBAL_TIMER
from fourfold.kernel.cuda.dialect import CUDA
from fourfold.kernel.cuda.stage_calls import CalledStages
from fourfold.kernel.language import JoinedStages
from fourfold.kernel.stage import GPU_ITEMS, Stage
from fourfold.plan.stage_clocks import StageClock


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
