"""Measure the loss of a quantized model: output error, agreement of answers, and a score."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from fourfold.export.quantize.running import Arrays

MIN_SAME_PIXELS = 0.95
MIN_MAP_SIDE, MAX_MAP_CLASSES = 32, 256
MAX_CHANGED = 0.05  # default share of answers that may change
MAX_ERROR = 0.25  # of outputs that have no answers to compare
Score = Callable[[Mapping[str, np.ndarray], int], float]  # of the outputs of one sample


@dataclass(frozen=True)
class Loss:
    """The difference between a float model and its quantized form.

    Attributes:
        error: Root-mean-square error of the worst output, relative to its values.
        answers: Share of samples with the same argmax, for outputs that are vectors, or have a
            vector for each pixel, of which nearly all must have the same argmax.
        before: Mean of the caller's score for the float model.
        after: Mean of the caller's score for the quantized model.
    """

    error: float
    answers: float | None = None
    before: float | None = None
    after: float | None = None

    @property
    def value(self) -> float:
        """The number that a limit is compared with: the drop of the score, or else the error."""
        if self.before is None or self.after is None:
            return self.error
        return self.before - self.after

    def problem(self, samples: int, max_changed: float) -> str:
        """Return why the quantized model is not what the float model was; '' if it is."""
        if self.answers is None:
            text = f"the error of the outputs is {self.error:.0%}, more than {MAX_ERROR:.0%}"
            return text if self.error > MAX_ERROR else ""
        changed = 1 - self.answers
        count = f"{round(changed * samples)} of {samples} answers changed"
        return f"{count}, more than {max_changed:.0%}" if changed > max_changed else ""

    def __str__(self) -> str:
        text = f"error {self.error:.2%}"
        if self.answers is not None:
            text += f", {self.answers:.1%} of the answers the same"
        if self.before is not None:
            text += f", score {self.before:.4g} before and {self.after:.4g} after"
        return text


@dataclass
class LossMeter:
    """Accumulates the loss from the outputs of both models, sample by sample."""

    score: Score | None = None
    _squares: dict[str, list[float]] = field(default_factory=dict)
    _same: list[bool] = field(default_factory=list)
    _scores: list[tuple[float, float]] = field(default_factory=list)

    def add(self, number: int, before: Arrays, after: Arrays) -> None:
        for name, expected in before.items():
            if expected.dtype.kind == "f" and expected.size:
                self._add_squares(name, expected, after[name])
        vectors = [name for name, array in before.items() if _is_vector(array) or _is_map(array)]
        if vectors:
            pairs = ((before[name], after[name]) for name in vectors)
            self._same.append(all(_have_same_best(a, b) for a, b in pairs))
        if self.score is not None:
            self._scores.append((self.score(before, number), self.score(after, number)))

    def _add_squares(self, name: str, expected: np.ndarray, found: np.ndarray) -> None:
        a, b = expected.astype(np.float64), found.astype(np.float64)
        finite = np.isfinite(a)
        apart = np.where(np.isfinite(b), b - a, np.abs(a) + 1.0)[finite]
        sums = self._squares.setdefault(name, [0.0, 0.0])
        sums[0] += float((apart**2).sum())
        sums[1] += float((a[finite] ** 2).sum())

    def loss(self) -> Loss:
        errors = [_root_share(*sums) for sums in self._squares.values()]
        answers = float(np.mean(self._same)) if self._same else None
        before, after = np.mean(self._scores, axis=0) if self._scores else (None, None)
        return Loss(max(errors, default=0.0), answers, before, after)


def _root_share(apart: float, total: float) -> float:
    """Return the relative error; infinite if all expected numbers are zero."""
    if not total:
        return 0.0 if not apart else float("inf")
    return float(np.sqrt(apart / total))


def _have_same_best(one: np.ndarray, other: np.ndarray) -> bool:
    """Return True if both have the same argmax along the last axis, nearly everywhere."""
    same = one.argmax(-1) == other.argmax(-1)
    return bool(np.mean(same) >= MIN_SAME_PIXELS)


def _is_map(array: np.ndarray) -> bool:
    """Return True if an output looks like the class scores of each pixel: [batch, h, w, C]."""
    if array.dtype.kind != "f" or array.ndim != 4:
        return False
    _, tall, wide, classes = array.shape
    return bool(
        min(tall, wide) >= MIN_MAP_SIDE and 2 <= classes <= min(MAX_MAP_CLASSES, tall, wide)
    )


def _is_vector(array: np.ndarray) -> bool:
    """Return True if an output looks like class scores."""
    return array.dtype.kind == "f" and array.ndim > 0 and array.shape[-1] == array.size > 1
