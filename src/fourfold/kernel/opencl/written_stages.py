"""Stages of one launch, inlined into the kernel, for GPUs with OpenCL."""

from __future__ import annotations

from collections.abc import Sequence

from fourfold.kernel.c_style.sharing import GroupMemory, StageCalls
from fourfold.kernel.c_style.stage_function import StageFunction


class WrittenStages(StageCalls):
    """Inlines each stage where it is called."""

    def base(self, number: str) -> str:
        return f"bases[{number}]"

    def texts(
        self, stages: Sequence[StageFunction], rounds: Sequence[str], memory: GroupMemory
    ) -> list[str]:
        return [stage.named_text for stage in stages]

    def declarations(self, memory: GroupMemory) -> list[str]:
        pool = [f"__local float4 pool[{memory.pool}];"] if memory.pool else []
        rows = f"__local int rows[{2 * memory.stride}];"
        return [*pool, rows, f"__global uchar *__local bases[{memory.buffers}];"]

    def asked(self, memory: GroupMemory) -> int:
        return 0

    def case(self, number: int, rounds: str) -> str:
        return f"        case {number}:\n{rounds}\n            break;"

    def end(self) -> list[str]:
        return []
