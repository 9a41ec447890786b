"""The persistent kernel for devices where groups share stages: it walks a table of them.

Each group processes its fixed part of a stage, and all groups wait at a grid barrier, which
requires all groups to be resident at once. A row of the table says whether a stage needs a grid
barrier before it and whether it arrives at one. The launches of a plan are joined into one launch:
a function per kind of stage, and a table per run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from fourfold.codegen.c_style.dialect import Dialect
from fourfold.codegen.c_style.grid_barrier import (
    clock_functions,
    grid_barrier,
    host_handshake,
    note_functions,
    note_lines,
)
from fourfold.codegen.c_style.stage_function import (
    StageFunction,
    render_stage,
    stage_call,
    stage_operands,
)
from fourfold.codegen.language import JoinedRun, JoinedStages
from fourfold.codegen.stage import GPU_ITEMS, Stage
from fourfold.codegen.stage_table import (
    ARRIVES,
    AWAITS,
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

ENTRY = "one_launch"
_SHARE = """
$memory
    if ($item == 0) {
        $bases
    }
    const int item = $item;
    const int group = $group;
    const int groups = $groups;
    waiting others = begin(state, $host);
    for (int i = item; i < min(stages, 2) * $stride; i += $items) rows[i] = table[i];
    $barrier;$notes_begin
    for (int stage = 0; stage < stages; stage++) {
        ${local}int *row = rows + stage % 2 * $stride;
        const int start = group + row[2] < groups ? group + row[2] : group + row[2] - groups;
        others.due = row[5] & $awaits;$ahead
        switch (row[0]) {
$cases
        }
        await_others(&others);$notes_last
        if (stage + 1 == stages) break;
        if (row[5] & $arrives) arrive(&others, group, groups);
        else $barrier;$notes_stage
        // Nobody reads this row any more, and the one after the next takes its place.
        for (int i = item - $last_warp; stage + 2 < stages && i >= 0 && i < $stride; i += 32)
            row[i] = table[(stage + 2) * $stride + i];
    }$notes_end
    $told
"""

# Streamed weights come from device memory, with a latency of a microsecond. One warp prefetches its
# group's part of what a later stage streams.
_FETCH_AHEAD = """
        const int line = (item - $last_warp) * groups + group;
        fetch_lines(constants + row[6], row[7], line, 32 * groups);"""
_FETCHING = """
$function void fetch_lines(${global}const uchar *from, int bytes, int line, int step)
{
    for (int at = line * $line; at >= 0 && at < bytes; at += step * $line)
        asm volatile("prefetch.global.L2 [%0];" :: "l"(from + at) : "memory");
}
"""
_LINE = 128  # bytes per cache line


class GroupMemory(NamedTuple):
    """Local memory of a group: a pool that stages share, in vectors of 16 bytes, two rows of the
    table with `stride` words each, and a pointer to every buffer.
    """

    pool: int
    stride: int
    buffers: int


class StageCalls(Protocol):
    """Interface for how the kernel reaches its stages: inlined or called."""

    def base(self, number: str) -> str:
        """Return the buffer of a number, as the loop over a stage writes it."""

    def texts(
        self, stages: Sequence[StageFunction], rounds: Sequence[str], memory: GroupMemory
    ) -> list[str]:
        """Return the text before the kernel: all stages, with their loops if they are called."""

    def declarations(self, memory: GroupMemory) -> list[str]:
        """Declare the kernel's `pool`, `rows` and `bases`."""

    def launch_bytes(self, memory: GroupMemory) -> int:
        """Return the bytes of local memory that launches have to allocate."""

    def case(self, number: int, rounds: str) -> str:
        """Return the code that runs a stage, as a case of a switch."""

    def end(self) -> list[str]:
        """Return the text after the kernel."""


@dataclass(frozen=True)
class SharedForm:
    """Options of a kernel whose groups share stages.

    `buffers` is the number of buffers. `host_protocol` is the buffer for the handshake with the
    host, if any. With `clocked`, the kernel records when stages were done.
    """

    dialect: Dialect
    calls: StageCalls
    buffers: int
    host_protocol: int | None = None
    clocked: bool = False
    items: int = GPU_ITEMS  # work-items per group


def sharing_text(stages: Sequence[StageFunction], form: SharedForm) -> str:
    """Return the functions of all stages and the kernel that calls them."""
    dialect, calls = form.dialect, form.calls
    space, restrict = dialect.words["global"], dialect.words["restrict"]
    rounds, memory = [_rounds(stage, form) for stage in stages], group_memory(stages, form)
    lines = [
        entry_head(form.buffers, form.items, dialect),
        "{",
        *buffer_bases(form.buffers, dialect),
        f"    {space}const uchar *{restrict} constants = b1;",
        f"    {space}const int *table = ({space}const int *)(b1 + table_at);",
        f"    {space}int *state = ({space}int *)b{form.buffers - 1};",
        _body(stages, rounds, memory, form),
        "}",
        *calls.end(),
        "",
    ]
    before = [clock_functions(dialect)] if form.clocked else []
    before.append(grid_barrier(dialect, form.clocked))
    before += [note_functions(dialect)] if form.clocked else []
    before += [line_fetching(dialect)] if _streams(stages) else []
    before += [] if form.host_protocol is None else [host_handshake(dialect)]
    return dialect.unit("\n".join([*before, *calls.texts(stages, rounds, memory), *lines]))


def line_fetching(dialect: Dialect) -> str:
    """Return the function with which work-items prefetch constants, each every `step` lines."""
    return dialect.fill(_FETCHING, line=_LINE)


def _streams(stages: Sequence[StageFunction]) -> bool:
    return any(stage.kernel.streamed for stage in stages)


def group_memory(stages: Sequence[StageFunction], form: SharedForm) -> GroupMemory:
    """Return the memory of a group, with a pool for all virtual groups that run side by side."""
    pool = max(form.items // stage.items * stage.local_bytes for stage in stages)
    return GroupMemory(pool // 16, row_stride([stage.kernel for stage in stages]), form.buffers)


def entry_head(buffers: int, items: int, dialect: Dialect) -> str:
    """Return the signature of a persistent kernel: buffers, stage count, and table offset."""
    space, long = dialect.words["global"], dialect.words["long"]
    pointers = [f"{space}uchar *b{n}_base,\n    {long} b{n}_at" for n in range(buffers)]
    return dialect.entry(ENTRY, ",\n    ".join([*pointers, "int stages", "int table_at"]), items)


def buffer_bases(buffers: int, dialect: Dialect) -> list[str]:
    """Declare a pointer to the start of each buffer."""
    space = dialect.words["global"]
    return [f"    {space}uchar *b{n} = b{n}_base + b{n}_at;" for n in range(buffers)]


def _body(
    stages: Sequence[StageFunction], rounds: Sequence[str], memory: GroupMemory, form: SharedForm
) -> str:
    dialect, items, host = form.dialect, form.items, form.host_protocol
    ahead = dialect.fill(_FETCH_AHEAD, last_warp=items - 32) if _streams(stages) else ""
    bases = "\n        ".join(f"bases[{number}] = b{number};" for number in range(form.buffers))
    return dialect.fill(
        _SHARE,
        stride=memory.stride,
        memory="\n".join(f"    {line}" for line in form.calls.declarations(memory)),
        bases=bases,
        items=items,
        last_warp=items - 32,
        ahead=ahead,
        arrives=ARRIVES,
        awaits=AWAITS,
        cases="\n".join(form.calls.case(number, text) for number, text in enumerate(rounds)),
        host="0" if host is None else f"({dialect.words['global']}uint *)b{host}",
        told="" if host is None else "tell_host(&others, groups);",
        **note_lines(dialect, form.clocked),
    )


def _rounds(stage: StageFunction, form: SharedForm) -> str:
    """Return the loop over this group's virtual groups, as many at once as it has work-items for.

    They are dealt out one by one, so that a few of them occupy as many groups as possible. The
    first one goes to the group for which `start` is 0.

    If virtual groups share a barrier, those beyond the last one repeat the last one.
    """
    together, virtual = form.items // stage.items, stage.dialect.words["virtual"]
    seat = f"item / {stage.items}" if together > 1 else "0"
    limits = f"first < row[1]; first += groups * {together}"
    operands = [value for _, value in stage_operands(stage, form.calls.base)]
    lines = [
        *([] if stage.awaits else ["            await_others(&others);"]),
        f"            for (int first = start; {limits}) {{",
        f"                int {virtual} = first + {seat} * groups;",
    ]
    if stage.local_bytes and not stage.has_own_barrier:
        lines.append(f"                {virtual} = min({virtual}, row[1] - 1);")
    else:
        lines.append(f"                if ({virtual} < row[1])")
    grid = f"{virtual} % row[3]", f"{virtual} / row[3] % row[4]", f"{virtual} / row[3] / row[4]"
    lines += [
        f"                {stage_call(stage, operands, grid, f'item % {stage.items}')}",
        "            }",
    ]
    return "\n".join(lines)


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
