"""Accuracy by layer: the record of one layer, and the words for what to make of it."""

from __future__ import annotations

from dataclasses import dataclass

from fourfold.tools.report.compare import Deviation

TOLERANCE = {"fp32": 1e-4, "mixed": 1e-2, "fp16": 5e-2}  # of a value, with all before it
OWN_TOLERANCE = {"fp32": 1e-4, "mixed": 2e-3, "fp16": 2e-2}  # of a layer by itself
STEPS = 1.01  # a quantised value may be so many steps off

AGREES, CARRIED = "agrees", "from its inputs"
ROUNDED = "rounded by"  # the engine
HALF, OVERFLOW = "half precision", "overflow in half precision"
KERNEL, REWRITE, MEANING = "kernel", "rewrite", "definition"
FAULTS = (KERNEL, REWRITE, MEANING)


@dataclass(frozen=True)
class Layer:
    """One value: how far it is from the engine's, how far it may be, and what to make of it.

    `own` is what our layer adds: its result beside the exact one for the values that it was given.
    `engine_own` is the same for the engine. Both are None where a value is kept by one side only.
    """

    name: str
    op: str
    shape: tuple[int, ...]
    difference: Deviation
    allowed: float
    verdict: str = AGREES
    reason: str = ""
    own: Deviation | None = None
    engine_own: Deviation | None = None
    step: float = 0.0  # between neighbouring numbers of a quantised value

    @property
    def title(self) -> str:
        """Its operator and the first of the names that an exporter strung together."""
        return f"{self.op} '{self.name.split(';')[0]}'"

    @property
    def agrees(self) -> bool:
        return self.verdict == AGREES

    @property
    def is_fault(self) -> bool:
        """Whether it is ours, and no question of precision."""
        return self.verdict in FAULTS

    @property
    def steps(self) -> float | None:
        """The largest difference in steps, for quantised values."""
        return self.difference.absolute / self.step if self.step else None
