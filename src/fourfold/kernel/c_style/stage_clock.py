"""What groups that share stages note of the time, in NVIDIA's terms; see `plan.stage_clocks`.

Ticks are those of a group's own unit, of which every one has its own count, and cost a few cycles.
The GPU's timer is the same for all, and goes on in steps of up to a microsecond, so it is read only
when a group begins and ends. One work-item notes for its group, after it has told the others that
the group has come so far: they do not wait for what is noted.
"""

from __future__ import annotations

from fourfold.kernel.c_style.dialect import Dialect
from fourfold.kernel.c_style.grid_barrier import STATE_WORDS
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
    """How a kernel reads its clocks."""
    return dialect.fill(_READING)


def note_functions(dialect: Dialect) -> str:
    """How a group notes the time, behind the words of the state."""
    return dialect.fill(_NOTING, behind=STATE_WORDS, head=HEAD, each=EACH)


def note_lines(dialect: Dialect, clocked: bool) -> dict[str, str]:
    """What the walk over all stages has beside its own lines; nothing unless `clocked`."""
    return {name: dialect.fill(text) if clocked else "" for name, text in _LINES.items()}
