"""How far a stored model is from the float one: error of its outputs, answers, and a score."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from fourfold.quantization.running import Arrays

Score = Callable[[Mapping[str, np.ndarray], int], float]  # of the outputs for a sample


@dataclass(frozen=True)
class Loss:
    """What is lost between two models. `error` is that of the worst output: the root of the mean
    square of its differences over that of its numbers. `answers` is the share of samples for which
    the largest number of each vector is at the same place, where outputs are such vectors.
    `before` and `after` are means of the caller's score.
    """

    error: float
    answers: float | None = None
    before: float | None = None
    after: float | None = None

    @property
    def value(self) -> float:
        """What a limit is compared with: how much the score fell, or else the error."""
        if self.before is None or self.after is None:
            return self.error
        return self.before - self.after

    def __str__(self) -> str:
        text = f"error {self.error:.2%}"
        if self.answers is not None:
            text += f", {self.answers:.1%} of the answers the same"
        if self.before is not None:
            text += f", score {self.before:.4g} before and {self.after:.4g} after"
        return text


@dataclass
class LossMeter:
    """Sees the outputs of both models for one sample after the other."""

    score: Score | None = None
    _squares: dict[str, list[float]] = field(default_factory=dict)
    _same: list[bool] = field(default_factory=list)
    _scores: list[tuple[float, float]] = field(default_factory=list)

    def add(self, number: int, before: Arrays, after: Arrays) -> None:
        for name, expected in before.items():
            if expected.dtype.kind == "f" and expected.size:
                self._add_squares(name, expected, after[name])
        vectors = [name for name, array in before.items() if _is_vector(array)]
        if vectors:
            pairs = ((before[name], after[name]) for name in vectors)
            self._same.append(all(np.argmax(a) == np.argmax(b) for a, b in pairs))
        if self.score is not None:
            self._scores.append((self.score(before, number), self.score(after, number)))

    def _add_squares(self, name: str, expected: np.ndarray, found: np.ndarray) -> None:
        a, b = expected.astype(np.float64), found.astype(np.float64)
        known = np.isfinite(a)
        apart = np.where(np.isfinite(b), b - a, np.abs(a) + 1.0)[known]
        sums = self._squares.setdefault(name, [0.0, 0.0])
        sums[0] += float((apart**2).sum())
        sums[1] += float((a[known] ** 2).sum())

    def loss(self) -> Loss:
        errors = [_root_share(*sums) for sums in self._squares.values()]
        answers = float(np.mean(self._same)) if self._same else None
        before, after = np.mean(self._scores, axis=0) if self._scores else (None, None)
        return Loss(max(errors, default=0.0), answers, before, after)


def _root_share(apart: float, whole: float) -> float:
    """How large the differences are beside the numbers; infinite where these are all zero."""
    if not whole:
        return 0.0 if not apart else float("inf")
    return float(np.sqrt(apart / whole))


def _is_vector(array: np.ndarray) -> bool:
    """Whether an output looks like the scores of classes."""
    return array.dtype.kind == "f" and array.ndim > 0 and array.shape[-1] == array.size > 1
