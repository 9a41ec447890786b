"""The grid barrier of a persistent kernel and its handshake with the host, for NVIDIA GPUs.

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
"""

from __future__ import annotations

from fourfold.codegen.c_style.dialect import Dialect
from fourfold.plan.host_protocol import DONE, LATE, READY

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
