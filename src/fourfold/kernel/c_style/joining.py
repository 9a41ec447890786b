"""A plan's launches as stages of one launch: their functions, and the tables of their runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fourfold.device import DeviceInfo
from fourfold.kernel.c_style.dialect import Dialect
from fourfold.kernel.c_style.sharing import ENTRY, SharedForm, group_memory, sharing_text
from fourfold.kernel.c_style.stage_function import StageFunction, render_stage
from fourfold.kernel.language import JoinedRun, JoinedStages
from fourfold.kernel.stage import Stage
from fourfold.kernel.stage_table import (
    count_barriers,
    fill_table,
    is_too_large,
    local_memory,
    row_stride,
    shared,
    streamed_ahead,
)
from fourfold.plan import CONSTANTS

MOST_BUFFERS = 128  # one is chosen among all, and compilers take no expressions of any depth
AHEAD = 2  # stages: so much earlier a stage's weights are fetched, where they are streamed
_OWN_BUFFERS = 2  # that no stage sees: the host's flags, and how far groups are


def refuses_sizes(stages: Sequence[Stage], items: int, device: DeviceInfo) -> str | None:
    """Why groups of so many work-items cannot run these stages, or None."""
    for size in (stage.kernel.local_items for stage in stages):
        if size > items or items % size:
            return f"a kernel wants groups of {size}"
    buffers = len({use.buffer for stage in stages for use in stage.buffers})
    if buffers > MOST_BUFFERS:
        return "there are too many inputs and outputs"
    kernels = [stage.kernel for stage in stages]
    if local_memory(kernels, items, buffers + _OWN_BUFFERS) > device.most_local_memory:
        return "kernels side by side need more local memory than there is"
    large = any(map(is_too_large, stages))
    return "memory is too large for the table" if large else None


def join_shared(runs: Sequence[Sequence[Stage]], groups: int, form: SharedForm) -> JoinedStages:
    """The kernel whose groups share all stages, and what each run of them is."""
    functions, number_of = stage_functions(runs, form.dialect, shares=True)
    kernels = tuple(function.kernel for function in functions)
    stride, joined = row_stride(kernels), []
    for run in runs:
        distributions = [*shared(run, groups)]
        barriers, crossed = count_barriers(distributions)
        title = f"{len(run)} stages, {barriers} grid barriers, {crossed} of them crossed"
        called = [number_of[id(stage)] for stage in run]
        ahead = streamed_ahead(run, AHEAD)
        joined.append(JoinedRun(fill_table(run, called, distributions, stride, ahead), title))
    asked = form.calls.asked(group_memory(functions, form))
    sizes = (groups * form.items,), (form.items,)
    return JoinedStages(sharing_text(functions, form), ENTRY, *sizes, tuple(joined), kernels, asked)


def stage_functions(
    runs: Sequence[Sequence[Stage]], dialect: Dialect, shares: bool
) -> tuple[list[StageFunction], dict[int, int]]:
    """The distinct functions, and for every stage, by its identity, the number of its own."""
    known: dict[str, tuple[int, StageFunction]] = {}
    numbers: dict[int, int] = {}
    for stage in {id(stage): stage for run in runs for stage in run}.values():
        kernel, title = stage.kernel, f"{stage.kernel.title}_{len(known)}"
        constant = tuple(use.buffer == CONSTANTS for use in stage.buffers)
        one = StageFunction(title, kernel, constant, dialect, shares)
        text = render_stage(one)
        if text not in known:
            known[text] = (len(known), replace(one, text=text))
        numbers[id(stage)] = known[text][0]
    return [one for _, one in known.values()], numbers
