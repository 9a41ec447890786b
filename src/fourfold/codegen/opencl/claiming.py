"""The persistent kernel for devices where groups claim their work: it walks a table of stages.

Groups take chunks of a stage from a counter and continue when all chunks are done. A group waits
only for chunks that a running group has claimed, so any number of groups is safe, including one.

Groups can record times (see `plan.stage_clocks`). CPUs have one clock for all threads: the time
stamp counter, if the kernel text supports the processor, or the clock of an extension.
"""

from __future__ import annotations

from collections.abc import Sequence

from fourfold.codegen.c_style.sharing import buffer_bases, entry_head
from fourfold.codegen.c_style.stage_function import StageFunction, stage_call, stage_operands
from fourfold.codegen.opencl.dialect import OPENCL
from fourfold.codegen.stage_table import row_stride
from fourfold.plan.stage_clocks import EACH, HEAD, StageClock

PROCESSOR_TICKS = StageClock("the processor's time stamp counter")
KERNEL_CLOCK = StageClock("cl_khr_kernel_clock", build_options=" -cl-std=CL3.0")
_FUNCTIONS = {
    PROCESSOR_TICKS: "static ulong time_now(void) { return ticks(); }\n",
    KERNEL_CLOCK: """#pragma OPENCL EXTENSION cl_khr_kernel_clock : enable
static ulong time_now(void) { return clock_read_device(); }
""",
}
_LINES = {
    "notes_parameter": ",\n    int group",
    "notes_begin": f"""
    __global ulong *notes =
        (__global ulong *)(state + (before + stages * (parts + 1)) * {{apart}})
        + group * ({HEAD} + {EACH} * stages);
    notes[0] = notes[1] = late ? 0 : time_now();""",
    "notes_work": f"""
        notes[{HEAD} + {EACH} * stage] = time_now();""",
    "notes_stage": f"""
        notes[{HEAD} + {EACH} * stage + 1] = notes[{HEAD} + {EACH} * stage + 2] = time_now();""",
    "notes_end": "\n    notes[2] = notes[3] = time_now();",
}


def clock_function(clock: StageClock) -> str:
    """Return the function with which a group reads the clock."""
    return _FUNCTIONS[clock]


def note_lines(clock: StageClock | None, apart: int) -> dict[str, str]:
    """Return the lines added to the loop over all stages; empty without a clock.

    Counters of the state are `apart` words apart.
    """
    return {
        name: text.replace("{apart}", str(apart)) if clock else "" for name, text in _LINES.items()
    }


STATE_STRIDE = 32  # words between counters, so that no two share a cache line
GROUPS_EACH = 4  # groups per compute unit: a driver may dispatch several at once
ALONE_TICKS = 400000  # clock ticks for which a thread works before the others have started
_BOX = (
    "chunk.x + virtual % chunk.across",
    "chunk.y + virtual / chunk.across % chunk.down",
    "chunk.z + virtual / chunk.across / chunk.down",
)

# Every stage is divided into parts along one axis. A group begins with its own part, to find in its
# cache what it wrote there before, then helps with the others. The state holds how many groups have
# left and how many have started, which thread owns which part, and for each stage how much is done
# and how much of each part is claimed. A group that starts when all is done leaves at once.
_CLAIM = """
static __attribute__((noinline)) void walk(
    __global uchar *const *bases,
    __global const int *table,
    volatile __global int *state,
    int stages,
    int groups{notes_parameter})
{{
    const int parts = groups / {each};
    const int mine = part_of_thread(state + {apart}, parts);
    const int before = 2 + parts / {apart}, end = stages - 1, whole = table[end * {stride} + 1];
    const int late = whole > 0 && state[(before + end * (parts + 1)) * {apart}] >= whole;
    const ulong began = ticks();{notes_begin}
    int alone = atomic_inc(state + 1) + 1 < parts;
    for (int stage = late ? stages : 0; stage < stages; stage++) {{
        __global const int *row = table + stage * {stride};
        const int axis = row[5];
        const int extent = axis == 0 ? row[3] : axis == 1 ? row[4] : row[1] / (row[3] * row[4]);
        volatile __global int *done = state + (before + stage * (parts + 1)) * {apart};
        for (int turn = 0; turn < parts; turn++) {{
            const int part = (mine + turn) % parts;
            volatile __global int *claimed = done + (1 + part) * {apart};
            const int first = extent * part / parts;
            const int wide = extent * (part + 1) / parts - first;
            const int total = row[1] / extent * wide;
            claim chunk;
            chunk.x = axis == 0 ? first : 0;
            chunk.y = axis == 1 ? first : 0;
            chunk.z = axis == 2 ? first : 0;
            chunk.across = axis == 0 ? wide : row[3];
            chunk.down = axis == 1 ? wide : row[4];
            int made = 0;
            while (*claimed < total) {{
                chunk.start = atomic_add(claimed, row[2]);
                if (chunk.start >= total) break;
                chunk.stop = min(chunk.start + row[2], total);
                switch (row[0]) {{
{cases}
                }}
                made += chunk.stop - chunk.start;
                if (alone && ticks() - began > {alone_ticks}) {{
                    if (state[1] < parts) sleep_for(1);
                    alone = 0;
                }}
            }}
            if (made > 0) {{
                mem_fence(CLK_GLOBAL_MEM_FENCE);
                atomic_add(done, made);
            }}
        }}{notes_work}
        for (int turn = 0; *done < row[1]; turn++) wait_a_while(turn);
        mem_fence(CLK_GLOBAL_MEM_FENCE);{notes_stage}
    }}{notes_end}
    // The last group to leave makes the counters ready for the next run.
    if (atomic_inc(state) == groups - 1) {{
        state[0] = state[1] = 0;
        for (int i = 0; i < stages * (parts + 1); i++) state[(before + i) * {apart}] = 0;
    }}
}}
"""
_WALK = """
    __global uchar *const bases[] = {{ {bases} }};
    walk(bases, table, state, stages, (int)get_num_groups(0){group});
"""

# `claim` is a range of virtual groups in a box of the grid. `part_of_thread` returns the part of
# every stage a thread begins with: the same one in each run, identified by the address of its
# stack. `wait_a_while` yields the processor, because on a busy machine the awaited thread may need
# it. A thread that has not started yet is queued on the same processor; sleeping lets it move on.
THREAD = """
typedef struct {
    int start, stop, x, y, z, across, down;
} claim;

static int part_of_thread(volatile __global int *known, int parts)
{
    int here;
    const int thread = (int)((ulong)&here >> 16) | 1;
    for (int part = 0; part < parts; part++) {
        if (known[1 + part] == thread) return part;
    }
    const int part = (uint)atomic_inc(known) % (uint)parts;
    known[1 + part] = thread;
    return part;
}

#if defined(__x86_64__) && defined(__linux__)
static ulong ticks(void)
{
    uint low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    return ((ulong)high << 32) | low;
}

static void sleep_for(long nanoseconds)
{
    long result = 35, time[2] = {0, nanoseconds};
    __asm__ volatile("syscall" : "+a"(result) : "D"(time), "S"(0L) : "rcx", "r11", "memory");
}

static void wait_a_while(int turn)
{
    if (turn < 1000) __asm__ volatile("pause" ::: "memory");
    else sleep_for(20000);
}
#else
static ulong ticks(void) { return 0; }
static void sleep_for(long nanoseconds) { }
static void wait_a_while(int turn) { }
#endif
"""


def claiming_text(
    stages: Sequence[StageFunction], buffers: int, clock: StageClock | None = None
) -> str:
    """Return the functions of all stages and the kernel that calls them.

    With a clock, groups record when stages were done.
    """
    lines = [
        entry_head(buffers, 1, OPENCL),
        "{",
        *buffer_bases(buffers, OPENCL),
        "    __global const int *table = (__global const int *)(b1 + table_at);",
        f"    volatile __global int *state = (volatile __global int *)b{buffers - 1};",
        _WALK.format(
            bases=", ".join(f"b{number}" for number in range(buffers)),
            group=", (int)get_group_id(0)" if clock else "",
        ),
        "}",
        "",
    ]
    reading = [clock_function(clock)] if clock else []
    return "\n".join([THREAD, *reading, *_claim_functions(stages, clock), *lines])


def _claim_functions(stages: Sequence[StageFunction], clock: StageClock | None) -> list[str]:
    """Return all functions of claiming groups.

    None of this is part of the kernel's own body, which PoCL compiles three times: by itself, and
    for two ways to start a group.
    """
    cases = "\n".join(
        f"{' ' * 16}case {number}: some_of_{stage.name}(row, bases, chunk); break;"
        for number, stage in enumerate(stages)
    )
    walk = _CLAIM.format(
        stride=row_stride([stage.kernel for stage in stages]),
        apart=STATE_STRIDE,
        each=GROUPS_EACH,
        alone_ticks=ALONE_TICKS,
        cases=cases,
        **note_lines(clock, STATE_STRIDE),
    )
    functions = (text for stage in stages for text in (stage.named_text, _chunk_function(stage)))
    return [*functions, walk]


def _chunk_function(stage: StageFunction) -> str:
    """Return the function that runs a chunk of a stage: its virtual groups, one after the other."""
    operands = stage_operands(stage, lambda number: f"bases[{number}]")
    names = [f"a{position}" for position in range(len(operands))]
    parameters = "__global const int *row, __global uchar *const *bases, claim chunk"
    lines = [
        f"static __attribute__((noinline)) void some_of_{stage.name}(",
        f"    {parameters})",
        "{",
        "    __global const uchar *restrict constants = bases[1];",
        *(
            f"    {type_}{name} = {value};"
            for name, (type_, value) in zip(names, operands, strict=True)
        ),
        "    for (int virtual = chunk.start; virtual < chunk.stop; virtual++)",
        f"        {stage_call(stage, names, _BOX, '0')}",
        "}",
        "",
    ]
    return "\n".join(lines)
