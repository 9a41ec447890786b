"""Stage: a kernel with its arguments, as one of many that one launch runs."""

from __future__ import annotations

from dataclasses import dataclass

from fourfold.kernel.kernel import Kernel
from fourfold.plan import Argument, BufferUse


@dataclass(frozen=True, eq=False)
class Stage:
    """A kernel that is launched together with others, and its place among grid barriers."""

    kernel: Kernel
    arguments: tuple[Argument, ...]
    awaits: bool = True  # whether groups wait here for the last grid barrier
    arrives: bool = True  # whether a group then arrives at the next one

    @property
    def buffers(self) -> list[BufferUse]:
        return [item for item in self.arguments if isinstance(item, BufferUse)]

    @property
    def counts(self) -> list[int]:
        """Virtual groups along each axis."""
        pairs = zip(self.kernel.grid, self.kernel.local, strict=True)
        counts = [size // local for size, local in pairs]
        return counts + [1] * (3 - len(counts))
