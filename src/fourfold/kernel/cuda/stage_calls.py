"""Stages of one launch as functions, so that a program can be built in parts, side by side.

Built as a whole, all of them are written into the one kernel. With PART defined a compiler sees one
part of the stages, or the kernel itself as part 0, and a linker joins what they made: a stage is
called then. Callers keep next to nothing in registers, and so stages may use all of them without
saving any. Pointers come from local memory, and what they lead to has to be said: the compiler no
longer sees that it is an argument of the kernel.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from fourfold.kernel.c_style.sharing import StageCalls
from fourfold.kernel.c_style.stage_function import StageFunction

PARTS = 8  # of stages; more would each read the prelude again
_PRESERVED = 8  # registers that a caller may keep across a call
_PART = re.compile(r"^#if IN_PART\((\d+)\)$", re.MULTILINE)
_HEAD = f"""
#ifdef PART
#define IN_PART(part) (PART == part)
#define CALLED _Pragma("nv_abi preserve_n_data({_PRESERVED})") extern "C" __device__
#else
#define IN_PART(part) 1
#define CALLED static __device__ __forceinline__
#endif
static __device__ __forceinline__ uchar *base_of(uchar *const *bases, int number)
{{
    uchar *base = bases[number];
    __builtin_assume(__isGlobal(base));
    return base;
}}
"""
_PARAMETERS = "uchar *const *bases, int *row, float4 *pool, int start, waiting others"


class CalledStages(StageCalls):
    """Each stage is a function of its row of the table."""

    def base(self, number: str) -> str:
        return f"base_of(bases, {number})"

    def texts(self, stages: Sequence[StageFunction], rounds: Sequence[str]) -> list[str]:
        """All functions, part by part, and the condition under which a compiler sees the kernel."""
        declared = [
            f"CALLED waiting stage_{number}({_PARAMETERS});" for number in range(len(stages))
        ]
        lines = [_HEAD, *declared]
        for part, numbers in enumerate(_even_parts([stage.text for stage in stages]), 1):
            lines.append(f"#if IN_PART({part})")
            for number in numbers:
                lines += [stages[number].named_text, _function(number, stages[number], rounds)]
            lines.append("#endif")
        return [*lines, "#if IN_PART(0)"]

    def case(self, number: int, rounds: str) -> str:
        call = f"others = stage_{number}(bases, row, pool, start, others);"
        return f"        case {number}:\n            {call}\n            break;"

    def end(self) -> list[str]:
        return ["#endif"]


def count_parts(text: str) -> int:
    """How many parts a program can be built in; 1 where it is not made for that."""
    return max(map(int, _PART.findall(text)), default=0) + 1


def _head(number: int) -> str:
    return f"CALLED waiting stage_{number}({_PARAMETERS})"


def _function(number: int, stage: StageFunction, rounds: Sequence[str]) -> str:
    """All that a group does of one stage."""
    local = ["bases", "row", *(["pool"] if stage.local_bytes else [])]
    return "\n".join(
        [
            _head(number),
            "{",
            *(f"    __builtin_assume(__isShared({name}));" for name in local),
            "    const uchar *__restrict__ constants = base_of(bases, 1);",
            "    const int item = threadIdx.x;",
            "    const int groups = gridDim.x;",
            rounds[number],
            "    return others;",
            "}",
            "",
        ]
    )


def _even_parts(texts: Sequence[str]) -> list[list[int]]:
    """The numbers of these texts in parts of about the same length, each in rising order."""
    parts: list[list[int]] = [[] for _ in range(min(PARTS, len(texts)))]
    lengths = [0] * len(parts)
    for number in sorted(range(len(texts)), key=lambda number: -len(texts[number])):
        least = lengths.index(min(lengths))
        parts[least].append(number)
        lengths[least] += len(texts[number])
    return [sorted(part) for part in parts]
