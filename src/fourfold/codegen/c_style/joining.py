"""Joins the launches of a plan into one launch: stage functions and the table of each run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fourfold.codegen.c_style.dialect import Dialect
from fourfold.codegen.c_style.sharing import ENTRY, SharedForm, group_memory, sharing_text
from fourfold.codegen.c_style.stage_function import StageFunction, render_stage
from fourfold.codegen.language import JoinedRun, JoinedStages
from fourfold.codegen.stage import Stage
from fourfold.codegen.stage_table import (
    count_barriers,
    fill_table,
    is_too_large,
    local_memory,
    row_stride,
    share_stages,
    streamed_ahead,
)
from fourfold.device import DeviceInfo
from fourfold.plan import CONSTANTS

MAX_BUFFERS = 128  # a stage selects among all buffers, and compilers limit the depth of expressions
AHEAD = 2  # number of stages by which streamed weights are prefetched
_OWN_BUFFERS = 2  # buffers that no stage sees: the host flags and the progress of groups


def find_size_conflict(stages: Sequence[Stage], items: int, device: DeviceInfo) -> str | None:
    """Return why groups of `items` work-items cannot run these stages, or None."""
    for size in (stage.kernel.local_items for stage in stages):
        if size > items or items % size:
            return f"a kernel needs groups of {size} work-items"
    buffers = len({use.buffer for stage in stages for use in stage.buffers})
    if buffers > MAX_BUFFERS:
        return "the plan has too many inputs and outputs"
    kernels = [stage.kernel for stage in stages]
    if local_memory(kernels, items, buffers + _OWN_BUFFERS) > device.max_local_memory:
        return "groups that run side by side need more local memory than the device has"
    large = any(map(is_too_large, stages))
    return "buffer offsets are too large for the stage table" if large else None


def join_shared(runs: Sequence[Sequence[Stage]], groups: int, form: SharedForm) -> JoinedStages:
    """Build the kernel whose groups share all stages, and the table of each run."""
    functions, number_of = stage_functions(runs, form.dialect, shares=True)
    kernels = tuple(function.kernel for function in functions)
    stride, joined = row_stride(kernels), []
    for run in runs:
        distributions = [*share_stages(run, groups)]
        barriers, crossed = count_barriers(distributions)
        title = f"{len(run)} stages, {barriers} grid barriers, {crossed} of them crossed"
        called = [number_of[id(stage)] for stage in run]
        ahead = streamed_ahead(run, AHEAD)
        joined.append(JoinedRun(fill_table(run, called, distributions, stride, ahead), title))
    local_bytes = form.calls.launch_bytes(group_memory(functions, form))
    return JoinedStages(
        text=sharing_text(functions, form),
        entry=ENTRY,
        grid=(groups * form.items,),
        local=(form.items,),
        runs=tuple(joined),
        kernels=kernels,
        local_bytes=local_bytes,
    )


def stage_functions(
    runs: Sequence[Sequence[Stage]], dialect: Dialect, shares: bool
) -> tuple[list[StageFunction], dict[int, int]]:
    """Return the distinct functions, and each stage's function number by the stage's identity."""
    distinct: dict[str, tuple[int, StageFunction]] = {}
    numbers: dict[int, int] = {}
    for stage in {id(stage): stage for run in runs for stage in run}.values():
        kernel, title = stage.kernel, f"{stage.kernel.title}_{len(distinct)}"
        constant = tuple(use.buffer == CONSTANTS for use in stage.buffers)
        one = StageFunction(title, kernel, constant, dialect, shares)
        text = render_stage(one)
        if text not in distinct:
            distinct[text] = (len(distinct), replace(one, text=text))
        numbers[id(stage)] = distinct[text][0]
    return [one for _, one in distinct.values()], numbers
