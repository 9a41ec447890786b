"""Timestamps of groups that claim their work; see `plan.stage_clocks`.

CPUs have one clock for all threads: the time stamp counter, if the kernel text supports the
processor, or the clock of an extension.
"""

from __future__ import annotations

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
