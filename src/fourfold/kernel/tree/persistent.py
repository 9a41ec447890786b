"""All stages of a plan in one launch: their trees, and the table that says in which order."""

from __future__ import annotations

from collections.abc import Sequence

from fourfold.device import DeviceInfo
from fourfold.kernel.kernel import Kernel
from fourfold.kernel.language import JoinedRun, JoinedStages
from fourfold.kernel.stage import Stage, refuses_waits
from fourfold.kernel.stage_table import (
    count_barriers,
    fill_table,
    is_too_large,
    row_stride,
    shared,
)
from fourfold.kernel.tree.render import render
from fourfold.plan.stage_clocks import StageClock

ENTRY = "one_launch"
_ANY = "stage_of_any_name"  # stands in a text until it is known to be a new one


class StageList:
    """Stages for a player that walks their table: what a GPU would have as one launch."""

    def refuses(self, stages: Sequence[Stage], device: DeviceInfo) -> str | None:
        """Why these stages cannot be one launch, or None: as on the device that is played."""
        large = "memory is too large for the table" if any(map(is_too_large, stages)) else None
        return refuses_waits(stages, device) or large

    def shares(self, device: DeviceInfo) -> bool:
        return not device.is_cpu

    def waits_cheaply(self, device: DeviceInfo) -> bool:
        return True

    def state_bytes(self, stages: int, device: DeviceInfo) -> int:
        """Stages run one after the other: nobody tells anybody."""
        return 0

    def stage_clock(self, device: DeviceInfo) -> StageClock | None:
        return None

    def join(
        self,
        runs: Sequence[Sequence[Stage]],
        device: DeviceInfo,
        buffers: int,
        host_protocol: int | None,
        clock: StageClock | None = None,
    ) -> JoinedStages:
        kernels: dict[str, tuple[int, Kernel]] = {}
        numbers: dict[int, int] = {}
        for stage in (stage for run in runs for stage in run):
            text = render(stage.kernel, _ANY, group=stage.kernel.local)
            numbers[id(stage)] = kernels.setdefault(text, (len(kernels), stage.kernel))[0]
        every = tuple(kernel for _, kernel in kernels.values())
        stride, joined = row_stride(every), []
        for run in runs:
            distributions = [*shared(run, 1)]
            waits, crossed = count_barriers(distributions)
            table = fill_table(run, [numbers[id(stage)] for stage in run], distributions, stride)
            title = f"{len(run)} stages, {waits} grid barriers, {crossed} of them crossed"
            joined.append(JoinedRun(table, title))
        names = [f"{kernel.title}_{number}" for number, kernel in kernels.values()]
        texts = [text.replace(_ANY, name, 1) for text, name in zip(kernels, names, strict=True)]
        head = f"(stages {ENTRY} {stride} {' '.join(names)})\n"
        return JoinedStages(head + "".join(texts), ENTRY, (1,), (1,), tuple(joined), every)
