"""The one kernel that runs a whole plan where groups share stages: it walks a table of them.

Every group takes its fixed part of a stage, and all wait at a grid barrier, which needs all groups
to be resident at once. A row of the table says whether a stage needs such a grid barrier before it,
and whether it arrives at one.
"""

from __future__ import annotations

from collections.abc import Sequence

from fourfold.kernel.c_style.dialect import Dialect
from fourfold.kernel.c_style.grid_barrier import grid_barrier, host_handshake
from fourfold.kernel.c_style.stage_clock import clock_functions, note_functions, note_lines
from fourfold.kernel.c_style.stage_function import StageFunction, stage_call, stage_operands
from fourfold.kernel.stage_table import ARRIVES, AWAITS, row_stride

ENTRY = "one_launch"
_SHARE = """
    ${array}int rows[$twice];
    $pool
    const int item = $item;
    const int group = $group;
    const int groups = $groups;
    waiting others = begin(state, $host);
    for (int i = item; i < min(stages, 2) * $stride; i += $items) rows[i] = table[i];
    $barrier;$notes_begin
    for (int stage = 0; stage < stages; stage++) {
        ${local}int *row = rows + stage % 2 * $stride;
        const int start = group + row[2] < groups ? group + row[2] : group + row[2] - groups;
        others.due = row[5] & $awaits;
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


def sharing_text(
    stages: Sequence[StageFunction],
    buffers: int,
    items: int,
    dialect: Dialect,
    host_protocol: int | None = None,
    clocked: bool = False,
) -> str:
    """The functions of all stages and the kernel that calls them; `items` work-items form a
    group. `host_protocol` is the buffer by which it speaks with the host, if it does; `clocked`, it
    notes when stages were done.
    """
    space, restrict = dialect.words["global"], dialect.words["restrict"]
    lines = [
        entry_head(buffers, items, dialect),
        "{",
        *buffer_bases(buffers, dialect),
        f"    {space}const uchar *{restrict} constants = b1;",
        f"    {space}const int *table = ({space}const int *)(b1 + table_at);",
        f"    {space}int *state = ({space}int *)b{buffers - 1};",
        _body(stages, buffers, items, dialect, host_protocol, clocked),
        "}",
        "",
    ]
    before = [clock_functions(dialect)] if clocked else []
    before.append(grid_barrier(dialect, clocked))
    before += [note_functions(dialect)] if clocked else []
    before += [] if host_protocol is None else [host_handshake(dialect)]
    return dialect.unit("\n".join([*before, *(stage.named_text for stage in stages), *lines]))


def pool_bytes(stages: Sequence[StageFunction], items: int) -> int:
    """Local memory of all virtual groups that run side by side."""
    return max(items // stage.items * stage.local_bytes for stage in stages)


def asked_memory(stages: Sequence[StageFunction], items: int, dialect: Dialect) -> int:
    """The bytes of it that a launch must ask for: all, where the kernel may not declare them beside
    its rows of the table.
    """
    rows = 2 * 4 * row_stride([stage.kernel for stage in stages])
    pool = pool_bytes(stages, items)
    return pool if dialect.asks_launch(pool + rows) else 0


def entry_head(buffers: int, items: int, dialect: Dialect) -> str:
    """The head of a persistent kernel: all buffers, how many stages, and where the table is."""
    space, long = dialect.words["global"], dialect.words["long"]
    pointers = [f"{space}uchar *b{n}_base,\n    {long} b{n}_at" for n in range(buffers)]
    return dialect.entry(ENTRY, ",\n    ".join([*pointers, "int stages", "int table_at"]), items)


def buffer_bases(buffers: int, dialect: Dialect) -> list[str]:
    """Where each buffer begins."""
    space = dialect.words["global"]
    return [f"    {space}uchar *b{n} = b{n}_base + b{n}_at;" for n in range(buffers)]


def _body(
    stages: Sequence[StageFunction],
    buffers: int,
    items: int,
    dialect: Dialect,
    host_protocol: int | None,
    clocked: bool,
) -> str:
    cases = "\n".join(_rounds(number, stage, buffers, items) for number, stage in enumerate(stages))
    stride = row_stride([stage.kernel for stage in stages])
    pool = pool_bytes(stages, items) // 16
    declared = f"{dialect.words['array']}float4 pool[{pool}];" if pool else ""
    host = "0" if host_protocol is None else f"({dialect.words['global']}uint *)b{host_protocol}"
    return dialect.fill(
        _SHARE,
        stride=stride,
        twice=2 * stride,
        pool=dialect.launch_array if asked_memory(stages, items, dialect) else declared,
        items=items,
        last_warp=items - 32,
        arrives=ARRIVES,
        awaits=AWAITS,
        cases=cases,
        host=host,
        told="" if host_protocol is None else "tell_host(&others, groups);",
        **note_lines(dialect, clocked),
    )


def _rounds(number: int, stage: StageFunction, buffers: int, items: int) -> str:
    """A case of the switch: this group's virtual groups, as many at once as there are items for.

    They are dealt out one by one, so that few of them keep as many groups busy as there can be; the
    first one goes to the group for which `start` is 0.
    Where they share a barrier, those beyond the last one make the last one again.
    """
    together, virtual = items // stage.items, stage.dialect.words["virtual"]
    seat = f"item / {stage.items}" if together > 1 else "0"
    limits = f"first < row[1]; first += groups * {together}"
    operands = [value for _, value in stage_operands(stage, lambda number: _base(number, buffers))]
    lines = [
        f"        case {number}:",
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
        "            break;",
    ]
    return "\n".join(lines)


def _base(number: str, buffers: int) -> str:
    """The buffer of a number, by comparison: an indexed array of pointers would be memory."""
    text = "b0"
    for index in range(1, buffers):
        text = f"({number} == {index} ? b{index} : {text})"
    return text
