"""Timestamps of groups that share stages, on NVIDIA GPUs; see `plan.stage_clocks`.

Ticks come from the multiprocessor's own counter and cost a few cycles. The GPU's global timer is
common to all groups but advances in steps of up to a microsecond, so it is read only when a group
begins and ends. One work-item writes the timestamps of its group after the group has arrived at the
barrier, so the other groups do not wait for it.
"""

from __future__ import annotations

from fourfold.codegen.c_style.dialect import Dialect
from fourfold.codegen.c_style.grid_barrier import STATE_WORDS
from fourfold.plan.stage_clocks import EACH, HEAD, StageClock

GLOBAL_TIMER = StageClock("%globaltimer and %clock64", 1e9)

_READING = """
$function $long own_ticks(void)
{
    $long now;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(now) :: "memory");
    return now;
}

$function $long device_time(void)
{
    $long now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now) :: "memory");
    return now;
}
"""
_NOTING = """
$function ${global}$long *begin_notes(${global}int *state, int group, int stages)
{
    ${global}$long *notes = (${global}$long *)(state + $behind) + group * ($head + $each * stages);
    if ($item == 0) {
        notes[0] = device_time();
        notes[1] = own_ticks();
    }
    return notes;
}

$function void note_stage(waiting *others, ${global}$long *notes, int stage)
{
    if ($item == 0) {
        notes[$head + $each * stage] = others->wait_began;
        notes[$head + $each * stage + 1] = others->wait_ended;
        notes[$head + $each * stage + 2] = own_ticks();
    }
    others->wait_began = others->wait_ended = 0;
}

$function void end_notes(${global}$long *notes)
{
    if ($item == 0) {
        notes[2] = device_time();
        notes[3] = own_ticks();
    }
}
"""
_LINES = {
    "notes_begin": "\n    ${global}$long *notes = begin_notes(state, group, stages);",
    "notes_last": """
        if (stage + 1 == stages) {
            $barrier;
            note_stage(&others, notes, stage);
        }""",
    "notes_stage": "\n        note_stage(&others, notes, stage);",
    "notes_end": "\n    end_notes(notes);",
}


def clock_functions(dialect: Dialect) -> str:
    """Return the functions that read the clocks."""
    return dialect.fill(_READING)


def note_functions(dialect: Dialect) -> str:
    """Return the functions that write timestamps after the words of the state."""
    return dialect.fill(_NOTING, behind=STATE_WORDS, head=HEAD, each=EACH)


def note_lines(dialect: Dialect, clocked: bool) -> dict[str, str]:
    """Return the lines added to the loop over all stages; empty unless `clocked`."""
    return {name: dialect.fill(text) if clocked else "" for name, text in _LINES.items()}
