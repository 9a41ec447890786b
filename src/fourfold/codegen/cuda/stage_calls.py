"""Stages of one launch as functions, so that parts of a program can be compiled in parallel.

Compiled as a whole, all stages are inlined into one kernel. With PART defined, the compiler sees
one part of the stages, or the kernel itself as part 0, and a linker joins the objects; stages are
then called. Callers keep almost nothing in registers, so stages may use all of them without saving
any. Pointers come from shared memory and are declared global explicitly, because the compiler no
longer sees that they are kernel arguments. Shared memory is allocated by launches, as only that has
the same address in all parts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from fourfold.codegen.c_style.sharing import GroupMemory, StageCalls
from fourfold.codegen.c_style.stage_function import StageFunction
from fourfold.codegen.cuda.dialect import CUDA

PARTS = 8  # parts of stages; each further part would compile the prelude again
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
{CUDA.launch_array}
"""
_BASES = """
static __device__ __forceinline__ uchar *base_of(int number)
{
    uchar *base = ((uchar *const *)(pool + %d))[number];
    __builtin_assume(__isGlobal(base));
    return base;
}
"""


@dataclass(frozen=True)
class CalledStages(StageCalls):
    """Each stage is a function of its row of the table.

    It returns whether it still has to wait for other groups and, if `clocked`, how long it waited.
    """

    clocked: bool = False

    def base(self, number: str) -> str:
        return f"base_of({number})"

    def texts(
        self, stages: Sequence[StageFunction], rounds: Sequence[str], memory: GroupMemory
    ) -> list[str]:
        """Return all functions, part by part, and the condition for compiling the kernel."""
        lines = [_HEAD, _BASES % memory.pool]
        lines += [f"{self._head(number)};" for number in range(len(stages))]
        for part, numbers in enumerate(_even_parts([stage.text for stage in stages]), 1):
            lines.append(f"#if IN_PART({part})")
            for number in numbers:
                lines += [stages[number].named_text, self._function(number, rounds, memory)]
            lines.append("#endif")
        return [*lines, "#if IN_PART(0)"]

    def declarations(self, memory: GroupMemory) -> list[str]:
        bases = f"uchar **bases = (uchar **)(pool + {memory.pool});"
        return [bases, f"int *rows = (int *)(bases + {memory.buffers});"]

    def launch_bytes(self, memory: GroupMemory) -> int:
        extra = 8 * memory.buffers + 2 * 4 * memory.stride
        return 16 * (memory.pool + -(-extra // 16))

    def case(self, number: int, rounds: str) -> str:
        result = "others" if self.clocked else "others.due"
        call = f"{result} = stage_{number}(stage % 2, start, others);"
        return f"        case {number}:\n            {call}\n            break;"

    def end(self) -> list[str]:
        return ["#endif"]

    def _head(self, number: int) -> str:
        type_ = "waiting" if self.clocked else "int"
        return f"CALLED {type_} stage_{number}(int odd, int start, waiting others)"

    def _function(self, number: int, rounds: Sequence[str], memory: GroupMemory) -> str:
        """Return the function that runs a group's part of one stage."""
        rows = f"(int *)(pool + {memory.pool}) + {2 * memory.buffers}"
        return "\n".join(
            [
                self._head(number),
                "{",
                f"    int *row = {rows} + odd * {memory.stride};",
                "    const uchar *__restrict__ constants = base_of(1);",
                "    const int item = threadIdx.x;",
                "    const int groups = gridDim.x;",
                rounds[number],
                f"    return {'others' if self.clocked else 'others.due'};",
                "}",
                "",
            ]
        )


def count_parts(text: str) -> int:
    """Return how many parts a program can be compiled in; 1 if its text is not divided."""
    return max(map(int, _PART.findall(text)), default=0) + 1


def _even_parts(texts: Sequence[str]) -> list[list[int]]:
    """Divide texts into parts of about equal length; return ascending indices per part."""
    parts: list[list[int]] = [[] for _ in range(min(PARTS, len(texts)))]
    lengths = [0] * len(parts)
    for number in sorted(range(len(texts)), key=lambda number: -len(texts[number])):
        shortest = lengths.index(min(lengths))
        parts[shortest].append(number)
        lengths[shortest] += len(texts[number])
    return [sorted(part) for part in parts]
