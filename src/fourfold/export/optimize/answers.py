"""Compare the outputs of an optimized model with those of the original."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from fourfold.tools.report.compare import Deviation, deviation
from fourfold.vision.preprocessing import PictureInput

Arrays = Mapping[str, np.ndarray]
Run = Callable[[Arrays], Sequence[np.ndarray]]
TOLERANCES = {"fp32": 1e-4, "mixed": 1e-2, "fp16": 5e-2}  # relative to the range of an output
UNLIMITED = sys.float_info.max
MAX_INTEGER_STEPS = 2  # allowed difference of an integer output


@dataclass(frozen=True)
class OutputAnswer:
    """Differences of one output over all samples, relative to its range.

    `same_best` counts the samples with the same argmax.
    """

    name: str
    largest: float
    mean: float
    allowed: float
    same_best: int

    @property
    def agrees(self) -> bool:
        return self.largest <= self.allowed

    @property
    def verdict(self) -> str:
        """'agrees', 'differs', or 'measured' if there is no tolerance."""
        if not self.agrees:
            return "differs"
        return "agrees" if self.allowed < UNLIMITED else "measured"


@dataclass(frozen=True)
class Answers:
    """Differences of all outputs, compared with `engine`.

    `picture` says how pictures among the samples were converted; None if there were none.
    """

    engine: str
    samples: int
    outputs: tuple[OutputAnswer, ...]
    picture: PictureInput | None = None

    @property
    def agrees(self) -> bool:
        return all(output.agrees for output in self.outputs)

    def to_json(self) -> dict[str, Any]:
        return {
            "agrees": self.agrees,
            "engine": self.engine,
            "samples": self.samples,
            "outputs": [asdict(one) for one in self.outputs],
            "preprocessing": None if self.picture is None else self.picture.to_json(),
        }

    def __str__(self) -> str:
        worst = max(self.outputs, key=lambda output: output.largest)
        verdict = "agrees with" if self.agrees else "differs from"
        return (
            f"{verdict} {self.engine}: at most {worst.largest:.2e} of the range, in '{worst.name}'"
        )


def compare_answers(
    before: Run,
    after: Run,
    samples: Iterable[Arrays],
    names: Sequence[str],
    precision: str | None,
) -> tuple[OutputAnswer, ...]:
    """Run both models on each sample. Without a precision, any finite difference is allowed."""
    rows_by_output: list[list[tuple[Deviation, float, bool]]] = [[] for _ in names]
    for arrays in samples:
        pairs = zip(rows_by_output, after(arrays), before(arrays), strict=True)
        for rows, ours, theirs in pairs:
            allowed = _allowed(theirs, precision)
            rows.append((deviation(ours, theirs), allowed, _best(ours) == _best(theirs)))
    return tuple(_answer(name, rows) for name, rows in zip(names, rows_by_output, strict=True))


def _answer(name: str, rows: Sequence[tuple[Deviation, float, bool]]) -> OutputAnswer:
    largest = max(float("inf") if one.broken else one.largest for one, _, _ in rows)
    mean = sum(one.mean for one, _, _ in rows) / len(rows)
    allowed = max(allowed for _, allowed, _ in rows)
    return OutputAnswer(name, largest, mean, allowed, sum(same for _, _, same in rows))


def _allowed(theirs: np.ndarray, precision: str | None) -> float:
    if precision is None:
        return UNLIMITED
    if theirs.dtype.kind not in "iu" or theirs.dtype.itemsize > 1:
        return TOLERANCES[precision]
    reach = int(np.ptp(theirs.astype(np.int64))) if theirs.size else 0
    return MAX_INTEGER_STEPS / max(reach, 1)


def _best(array: np.ndarray) -> int:
    return int(np.argmax(array)) if array.size else 0
