"""Kernel trees as a language with the features of all devices, and their table of stages."""

from __future__ import annotations

from collections.abc import Sequence

from fourfold.codegen.capabilities import Capabilities
from fourfold.codegen.context import Target
from fourfold.codegen.kernel import Kernel
from fourfold.codegen.language import JoinedRun, JoinedStages, Language, Persistent, Prelude
from fourfold.codegen.stage import Stage, find_wait_conflict
from fourfold.codegen.stage_table import (
    count_barriers,
    fill_table,
    is_too_large,
    row_stride,
    share_stages,
)
from fourfold.codegen.tree.render import render
from fourfold.codegen.walk import Node
from fourfold.device import DeviceInfo
from fourfold.plan.stage_clocks import StageClock

ENTRY = "one_launch"
_ANY = "stage_of_any_name"  # placeholder for the name until the text is known to be new


class StageList:
    """Stages for an interpreter that walks their table, the counterpart of one launch on a GPU."""

    def refuses(self, stages: Sequence[Stage], device: DeviceInfo) -> str | None:
        """Return why these stages cannot be one launch on the interpreted device, or None."""
        large = (
            "buffer offsets are too large for the stage table"
            if any(map(is_too_large, stages))
            else None
        )
        return find_wait_conflict(stages, device) or large

    def shares(self, device: DeviceInfo) -> bool:
        return not device.is_cpu

    def waits_cheaply(self, device: DeviceInfo) -> bool:
        return True

    def state_bytes(self, stages: int, device: DeviceInfo) -> int:
        """Return 0: stages run one after the other and need no state."""
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
        distinct = tuple(kernel for _, kernel in kernels.values())
        stride, joined = row_stride(distinct), []
        for run in runs:
            distributions = [*share_stages(run, 1)]
            waits, crossed = count_barriers(distributions)
            table = fill_table(run, [numbers[id(stage)] for stage in run], distributions, stride)
            title = f"{len(run)} stages, {waits} grid barriers, {crossed} of them crossed"
            joined.append(JoinedRun(table, title))
        names = [f"{kernel.title}_{number}" for number, kernel in kernels.values()]
        texts = [text.replace(_ANY, name, 1) for text, name in zip(kernels, names, strict=True)]
        head = f"(stages {ENTRY} {stride} {' '.join(names)})\n"
        return JoinedStages(head + "".join(texts), ENTRY, (1,), (1,), tuple(joined), distinct)


VERSION = "1.0"
WARP = 32
_CAPABILITIES = Capabilities(
    language="kernel trees",
    images=True,
    host_addresses=True,
    matrix_fragments=True,
    async_copies=True,
    warpgroups=True,
    extents=True,
    dot_products=frozenset(("", "x86", "khr", "ptx")),
    subgroups={"khr": None, "ptx": WARP},
)


class TreeLanguage:
    """Writes kernel trees as they are."""

    @property
    def capabilities(self) -> Capabilities:
        return _CAPABILITIES

    @property
    def persistent(self) -> Persistent | None:
        return StageList()

    def render(
        self,
        kernel: Kernel,
        entry: str,
        images: frozenset[str] = frozenset(),
        buffers: Sequence[int] = (),
    ) -> str:
        return render(kernel, entry, images)

    def prelude(self, special: Sequence[Node], target: Target) -> Prelude:
        """Return an empty prelude: trees need none."""
        return Prelude("", "", VERSION)


LANGUAGE: Language = TreeLanguage()
