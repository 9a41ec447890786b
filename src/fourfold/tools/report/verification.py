"""What was found of a model beside a CPU engine: its outputs, its layers, and the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

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

FLAT_STEPS = 4  # steps that an output has to span for its agreement to say something
DIFFERS = "differs"
FLAT = "agrees, but hardly varies"  # so few steps apart that agreement says little
GROWN = "rounding grows"  # of floats, on both sides
PLAN = "plan"  # the session gives something else than its layers
OUTPUT = "output"
FINE = (AGREES, FLAT, GROWN)


@dataclass(frozen=True)
class Output:
    """One output: how far it is from the engine's, and how far the engine is from itself.

    `spread` is between the engine as it is used and with its plain kernels, where both are known.
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
        """The largest difference in steps, for quantised values."""
        return self.difference.absolute / self.step if self.step else None


@dataclass(frozen=True)
class Verification:
    """All that was compared, and what to make of it."""

    engine: str  # that they were compared with, as people know it
    precision: str
    device: str
    outputs: tuple[Output, ...]
    layers: tuple[Layer, ...] = ()
    reason: str = ""

    @property
    def agrees(self) -> bool:
        faults = any(layer.is_fault for layer in self.layers)
        return not faults and all(output.agrees for output in self.outputs)

    @property
    def first(self) -> Layer | None:
        """The first layer that is wrong; else the first that loses precision or is rounded."""
        for wanted in ([layer for layer in self.layers if layer.is_fault], self.layers):
            for layer in wanted:
                if layer.verdict in (HALF, OVERFLOW) or layer.is_fault or is_rounded(layer):
                    return layer
        return None

    @property
    def largest_losses(self) -> tuple[Layer, ...]:
        """The layers by how much each adds to the difference by itself, most first."""
        known = [layer for layer in self.layers if layer.own is not None]
        return tuple(sorted(known, key=_loss, reverse=True))

    def to_json(self) -> dict[str, Any]:
        first = None if self.first is None else self.first.name
        return {"agrees": self.agrees, "first_divergence": first, **asdict(self)}


def is_rounded(layer: Layer) -> bool:
    return layer.verdict.startswith(ROUNDED)


def _loss(layer: Layer) -> float:
    assert layer.own is not None
    return float("inf") if layer.own.broken else layer.own.largest


def compare_outputs(
    ours: Sequence[np.ndarray], theirs: Sequence[np.ndarray], names: Sequence[str], precision: str
) -> tuple[Output, ...]:
    """The outputs of a session beside an engine's."""
    pairs = zip(names, ours, theirs, strict=True)
    return tuple(compare_output(name, mine, other, precision) for name, mine, other in pairs)


def compare_output(name: str, mine: np.ndarray, other: np.ndarray, precision: str) -> Output:
    found = deviation(mine, other)
    quantised = other.dtype.kind in "iu" and other.dtype.itemsize == 1
    span = int(np.ptp(other.astype(np.int64))) if quantised and other.size else 0
    allowed = STEPS / max(span, 1) if quantised else TOLERANCE[precision]
    output = Output(name, mine.shape, found, allowed, step=1.0 if quantised else 0.0)
    if not output.is_near:
        return replace(output, verdict=DIFFERS)
    return replace(output, verdict=FLAT) if quantised and span <= FLAT_STEPS else output
