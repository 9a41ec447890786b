"""The grid barrier of a persistent kernel, its host handshake and its clock, for NVIDIA GPUs.

Groups arrive with release semantics and wait with acquire semantics, so writes of other groups
before the barrier are visible after it. The top bit flips once per round, because the first group
adds what is missing to half of the range; nothing has to be reset. Between arriving and waiting, a
group does work that does not depend on the last stage: whole stages, and then preparation from
constants for its next one. Warps may get there on different paths, because a barrier is identified
by its number. Virtual groups that run side by side have separate barriers.

The host copies its arrays while the kernel starts and reports progress in a flag. One work-item
reads that flag, which takes a microsecond, and forwards it to all others: if every group read it,
the reads would be serialized. Each input has one such work-item. They may poll at the same time,
because the forwarded value only grows. If the host stops midway, the kernel continues after a
second and reports the timeout. When all groups are done, the last one notifies the host.

Timestamps of stages (see `plan.stage_clocks`) are ticks of the multiprocessor's own counter, which
cost a few cycles. The GPU's global timer is common to all groups but advances in steps of up to a
microsecond, so it is read only when a group begins and ends. One work-item writes the timestamps of
its group after the group has arrived at the barrier, so the other groups do not wait for it.
"""

from __future__ import annotations

from fourfold.codegen.c_style.dialect import Dialect
from fourfold.plan.host_protocol import DONE, LATE, READY
from fourfold.plan.stage_clocks import EACH, HEAD, StageClock

_GRID_BARRIER = """
typedef struct {
    ${global}int *state;
    ${global}uint *host;
    uint phase;
    int due;$wait_fields
} waiting;

$function void meet_beside(int seat, int items)
{
    asm volatile("bar.sync %0, %1;" :: "r"(seat + 1), "r"(items) : "memory");
}

$function waiting begin(${global}int *state, ${global}uint *host)
{
    uint now;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(state) : "memory");
    waiting others = { state, host, now & 0x80000000u, 0$wait_zeros };
    return others;
}

$function void arrive(waiting *others, int group, int groups)
{
    $fence;
    if ($item == 0) {
        const uint step = group == 0 ? 0x80000000u - (uint)(groups - 1) : 1u;
        asm volatile("red.release.gpu.global.add.u32 [%0], %1;"
            :: "l"(others->state), "r"(step) : "memory");
    }
    others->phase ^= 0x80000000u;
    others->due = 1;
}

$function void await_others(waiting *others)
{
    if (!others->due) return;
    others->due = 0;
    if ($item == 0) {$wait_began
        uint now;
        do {
            asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
                : "=r"(now) : "l"(others->state) : "memory");
        } while ((now & 0x80000000u) != others->phase);$wait_ended
    }
    asm volatile("bar.sync 0;" ::: "memory");
}
"""

# Lines added if waiting is timed; `stage_clock` has the functions.
_CLOCKED = {
    "wait_fields": "\n    $long wait_began;\n    $long wait_ended;",
    "wait_zeros": ", 0, 0",
    "wait_began": "\n        others->wait_began = own_ticks();",
    "wait_ended": "\n        others->wait_ended = own_ticks();",
}

# Words of the state after the barrier's own: progress of the host, number of groups that left.
_PASSED, _LEFT = 32, 33
STATE_WORDS = 64
_HOST_TIMEOUT = 1 << 20  # polls of the host, about a microsecond each

_HOST_HANDSHAKE = """
$function void await_host(waiting *others, int needed, int asks)
{
    ${global}int *passed = others->state + $passed_at;
    int now, known = 0, turn = 0;
    do {
        if (asks) {
            asm volatile("ld.acquire.sys.global.u32 %0, [%1];"
                : "=r"(now) : "l"(others->host + $ready_at) : "memory");
            if (now < needed && ++turn > $timeout) {
                others->host[$late_at] = 1;
                now = needed;
            }
            if (now != known) {
                asm volatile("red.release.gpu.global.max.u32 [%0], %1;"
                    :: "l"(passed), "r"(now) : "memory");
            }
            known = now;
        } else {
            asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
                : "=r"(now) : "l"(passed) : "memory");
        }
    } while (now < needed);
}

$function void tell_host(waiting *others, int groups)
{
    $fence;
    if ($item == 0) {
        uint left;
        asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;"
            : "=r"(left) : "l"(others->state + $left_at), "r"(groups - 1) : "memory");
        if (left == (uint)(groups - 1)) {
            others->state[$passed_at] = 0;
            asm volatile("st.release.sys.global.u32 [%0], %1;"
                :: "l"(others->host + $done_at), "r"(1u) : "memory");
        }
    }
}
"""


def grid_barrier(dialect: Dialect, clocked: bool = False) -> str:
    """Return the functions with which groups wait for each other.

    With `clocked`, one work-item records when waiting began and ended.
    """
    lines = {name: dialect.fill(text) if clocked else "" for name, text in _CLOCKED.items()}
    return dialect.fill(_GRID_BARRIER, **lines)


def host_handshake(dialect: Dialect) -> str:
    """Return the functions with which groups wait for the host and notify it at the end."""
    offsets = {"passed_at": _PASSED, "left_at": _LEFT, "timeout": _HOST_TIMEOUT}
    flags = {"ready_at": READY, "late_at": LATE, "done_at": DONE}
    return dialect.fill(_HOST_HANDSHAKE, **offsets, **flags)


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
