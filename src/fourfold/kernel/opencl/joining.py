"""A plan's launches as stages of one launch: the functions, the table and the kernel that walks it.

On a GPU groups share stages, a group a unit; on a CPU they claim chunks, and have one work-item.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fourfold.device import DeviceInfo
from fourfold.kernel.language import JoinedRun, JoinedStages
from fourfold.kernel.opencl.grid_barrier import STATE_WORDS
from fourfold.kernel.opencl.persistent import ENTRY, GROUPS_EACH, STATE_STRIDE, persistent_text
from fourfold.kernel.opencl.stage_function import StageFunction, render_stage
from fourfold.kernel.stage import Stage
from fourfold.kernel.stage_table import (
    claimed,
    count_barriers,
    fill_table,
    is_too_large,
    row_stride,
    shared,
)
from fourfold.kernel.statement import LocalArray
from fourfold.plan import CONSTANTS

GPU_ITEMS = 256
MOST_BUFFERS = 128  # one is chosen among all, and compilers take no expressions of any depth


class PersistentKernel:
    """How OpenCL devices run all stages of a plan in one launch."""

    def refuses(self, stages: Sequence[Stage], device: DeviceInfo) -> str | None:
        """Why these stages cannot be one launch, or None."""
        if not (device.forward_progress if device.is_cpu else device.resident):
            return "groups of this device cannot wait for each other in a known way"
        for kernel in (stage.kernel for stage in stages):
            size, items = kernel.local_items, _items(device)
            if size > items or items % size:
                return f"a kernel wants groups of {size}"
            if device.is_cpu and any(isinstance(item, LocalArray) for item in kernel.body):
                return "a kernel needs local memory"
        uses = [use for stage in stages for use in stage.buffers]
        if len({use.buffer for use in uses}) > MOST_BUFFERS:
            return "there are too many inputs and outputs"
        large = any(map(is_too_large, stages))
        return "memory is too large for the table" if large else None

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

    def join(
        self,
        runs: Sequence[Sequence[Stage]],
        device: DeviceInfo,
        buffers: int,
        host_protocol: int | None,
    ) -> JoinedStages:
        every = list({id(stage): stage for run in runs for stage in run}.values())
        functions, numbers = _stage_functions(every, self.shares(device))
        number_of = {id(stage): number for stage, number in zip(every, numbers, strict=True)}
        kernels = tuple(function.kernel for function in functions)
        items, stride = _items(device), row_stride(kernels)
        groups = device.compute_units * (1 if self.shares(device) else GROUPS_EACH)
        joined = []
        for run in runs:
            if self.shares(device):
                distributions = [*shared(run, groups)]
                barriers, crossed = count_barriers(distributions)
                title = f"{len(run)} stages, {barriers} grid barriers, {crossed} of them crossed"
            else:
                distributions = [claimed(stage, device.compute_units) for stage in run]
                title = f"{len(run)} stages"
            called = [number_of[id(stage)] for stage in run]
            joined.append(JoinedRun(fill_table(run, called, distributions, stride), title))
        text = persistent_text(functions, buffers, items, host_protocol)
        return JoinedStages(text, ENTRY, (groups * items,), (items,), tuple(joined), kernels)


def _items(device: DeviceInfo) -> int:
    """Work-items of a group."""
    return 1 if device.is_cpu else GPU_ITEMS


def _stage_functions(
    stages: Sequence[Stage], shares: bool
) -> tuple[list[StageFunction], list[int]]:
    """The distinct functions, and for every stage the number of its own."""
    known: dict[str, tuple[int, StageFunction]] = {}
    numbers = []
    for stage in stages:
        constant = tuple(use.buffer == CONSTANTS for use in stage.buffers)
        one = StageFunction(f"{stage.kernel.title}_{len(known)}", stage.kernel, constant, shares)
        text = render_stage(one)
        if text not in known:
            known[text] = (len(known), replace(one, text=text))
        numbers.append(known[text][0])
    return [one for _, one in known.values()], numbers
