"""Verification: outputs and layers of a model compared with a CPU runtime, and the verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from fourfold.support.display import html_table, shown
from fourfold.tools.report.compare import Deviation, deviation
from fourfold.tools.report.layers import (
    AGREES,
    HALF,
    OVERFLOW,
    ROUNDED,
    STEPS,
    TOLERANCE,
    Layer,
)

FLAT_STEPS = 4  # an output that spans no more quantization steps than this hardly varies
DIFFERS = "differs"
FLAT = "agrees, but hardly varies"  # too few steps apart for the agreement to be conclusive
GROWN = "rounding grows"  # float rounding errors of both sides grow from layer to layer
PLAN = "plan"  # the session's outputs differ from those of its layers
OUTPUT = "output"
FINE = (AGREES, FLAT, GROWN)


@dataclass(frozen=True)
class Output:
    """One output: its difference from the CPU runtime's, and the verdict.

    `spread` is the difference between the runtime's optimized and plain kernels, if both are known.
    """

    name: str
    shape: tuple[int, ...]
    difference: Deviation
    allowed: float
    verdict: str = AGREES
    step: float = 0.0
    spread: Deviation | None = None
    op: str = OUTPUT

    @property
    def agrees(self) -> bool:
        return self.verdict in FINE or self.verdict.startswith(ROUNDED)

    @property
    def is_near(self) -> bool:
        return not self.difference.broken and self.difference.largest <= self.allowed

    @property
    def steps(self) -> float | None:
        """Largest difference in quantization steps; None for float values."""
        return self.difference.absolute / self.step if self.step else None


@dataclass(frozen=True)
class Verification:
    """Outputs of a model, and layers if they were compared, next to those of a CPU runtime."""

    engine: str  # name of the CPU runtime
    precision: str
    device: str
    outputs: tuple[Output, ...]
    layers: tuple[Layer, ...] = ()
    reason: str = ""
    note: str = ""  # why NumPy stands in for the CPU runtime of the model's format

    @property
    def agrees(self) -> bool:
        """True if no result of fourfold is wrong; rounding of the CPU runtime is no fault."""
        faults = any(layer.is_fault for layer in self.layers)
        return not faults and all(output.agrees for output in self.outputs)

    @property
    def first(self) -> Layer | None:
        """First faulty layer; without any, the first that loses precision or is rounded."""
        for wanted in ([layer for layer in self.layers if layer.is_fault], self.layers):
            for layer in wanted:
                if layer.verdict in (HALF, OVERFLOW) or layer.is_fault or is_rounded(layer):
                    return layer
        return None

    @property
    def largest_losses(self) -> tuple[Layer, ...]:
        """Layers sorted by how much each adds to the difference by itself, largest first."""
        judged = [layer for layer in self.layers if layer.own is not None]
        return tuple(sorted(judged, key=_loss, reverse=True))

    @property
    def summary(self) -> str:
        """The verdict in one sentence."""
        if not self.agrees:
            return f"differs from {self.engine}: {self.reason}"
        if not self.reason:
            return f"all outputs agree with {self.engine}"
        return f"correct, though not identical: {self.reason}"

    def to_json(self) -> dict[str, Any]:
        """Return the verification as plain data."""
        first = None if self.first is None else self.first.name
        return {"agrees": self.agrees, "first_divergence": first, **asdict(self)}

    @shown
    def __str__(self) -> str:
        return "\n".join(self._lines())

    @shown
    def __repr__(self) -> str:
        return f"<Verification: {self.precision} on {self.device}, {self.summary}>"

    def _repr_html_(self) -> str:
        rows = [
            (
                one.name,
                f"{one.difference.absolute:.1e}",
                f"{one.difference.largest:.1e}",
                one.verdict,
            )
            for one in self.outputs
        ]
        title = f"Verification: {self.precision} on {self.device}, {self.summary}"
        return html_table(title, ("output", ">max abs", ">of range", "verdict"), rows)

    def _lines(self) -> Iterator[str]:
        yield f"{self.precision} on {self.device}: {self.summary}"
        for one in self.outputs:
            off = f"{one.difference.absolute:.1e}, {one.difference.largest:.1e} of the range"
            yield f"  output '{one.name}': largest difference {off}: {one.verdict}"
        for layer in self.layers:
            if not layer.agrees:
                yield f"  {layer.title}: {layer.verdict}{layer.reason and f': {layer.reason}'}"
        if self.note:
            yield f"  compared with NumPy: {self.note}"


def is_rounded(layer: Layer) -> bool:
    """Return whether the CPU runtime rounds the values of a layer."""
    return layer.verdict.startswith(ROUNDED)


def _loss(layer: Layer) -> float:
    assert layer.own is not None
    return float("inf") if layer.own.broken else layer.own.largest


def compare_outputs(
    ours: Sequence[np.ndarray], theirs: Sequence[np.ndarray], names: Sequence[str], precision: str
) -> tuple[Output, ...]:
    """Compare the outputs of a session with those of a CPU runtime."""
    pairs = zip(names, ours, theirs, strict=True)
    return tuple(compare_output(name, mine, other, precision) for name, mine, other in pairs)


def compare_output(name: str, mine: np.ndarray, other: np.ndarray, precision: str) -> Output:
    difference = deviation(mine, other)
    quantised = other.dtype.kind in "iu" and other.dtype.itemsize == 1
    span = int(np.ptp(other.astype(np.int64))) if quantised and other.size else 0
    allowed = STEPS / max(span, 1) if quantised else TOLERANCE[precision]
    output = Output(name, mine.shape, difference, allowed, step=1.0 if quantised else 0.0)
    if not output.is_near:
        return replace(output, verdict=DIFFERS)
    return replace(output, verdict=FLAT) if quantised and span <= FLAT_STEPS else output
