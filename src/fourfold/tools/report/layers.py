"""Accuracy by layer: the record of one layer, its tolerances and its verdicts."""

from __future__ import annotations

from dataclasses import dataclass

from fourfold.tools.report.compare import Deviation

TOLERANCE = {
    "fp32": 1e-4,
    "mixed": 1e-2,
    "fp16": 5e-2,
}  # of a value, with errors before it
OWN_TOLERANCE = {"fp32": 1e-4, "mixed": 2e-3, "fp16": 2e-2}  # of a layer by itself
STEPS = 1.01  # largest difference of a quantized value, in steps

AGREES, CARRIED = "agrees", "from its inputs"
ROUNDED = "rounded by"  # followed by the name of the engine
HALF, OVERFLOW = "half precision", "overflow in half precision"
KERNEL, REWRITE, MEANING = "kernel", "rewrite", "definition"
FAULTS = (KERNEL, REWRITE, MEANING)


@dataclass(frozen=True)
class Layer:
    """One value: its difference from the CPU engine's, the tolerance, and the verdict.

    `own` is the error that our layer adds: its result compared with the exact one for its inputs.
    `engine_own` is that of the engine. Both are None if only one side has the value.
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
    step: float = 0.0  # distance of neighbouring numbers of a quantized value

    @property
    def title(self) -> str:
        """The operator, and the first of the names that an exporter joined."""
        return f"{self.op} '{self.name.split(';')[0]}'"

    @property
    def agrees(self) -> bool:
        return self.verdict == AGREES

    @property
    def is_fault(self) -> bool:
        """True for an error of fourfold that precision does not explain."""
        return self.verdict in FAULTS

    @property
    def steps(self) -> float | None:
        """Largest difference in quantization steps; None for float values."""
        return self.difference.absolute / self.step if self.step else None
