"""Comparison of one value with the exact one, a few rows at a time: the distance, and whether
rounding explains it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from fourfold.tools.report.compare import Deviation, Differences
from fourfold.tools.report.exact import LAST_DIGITS, Given
from fourfold.tools.report.exact_rows import ROW_AXIS, RowRange, slabs
from fourfold.tools.report.exact_tensors import Exact, ExactTensor, ExactTensors
from fourfold.tools.report.rounding import (
    NEAREST,
    TIE,
    Imitation,
    RoundingNoise,
    is_imitated,
)
from fourfold.tools.report.values import EngineTensors, KernelTensors

Values = KernelTensors | EngineTensors


class ExactFit:
    """Compares a tensor of our kernels, or of an engine, with its definition's result for the
    inputs that the same side has.
    """

    def __init__(self, tensors: ExactTensors, name: str, values: Values) -> None:
        array = values.value(name)
        assert array is not None, f"'{name}' has no value"
        self._tensors, self._name, self._found = tensors, name, array
        self._given: Given = cache(values.value)
        self._exact = tensors.tensor(name, self._given)
        self._differences = Differences()
        self._limit: float | None = None  # largest error of rounding, in steps
        self._farthest: list[tuple[RowRange | None, float]] = []
        self.noise = RoundingNoise(array.size, tensors.tensors.zero_shift(name))
        for rows in self._slabs():
            self._add(rows)

    def _slabs(self) -> Sequence[RowRange | None]:
        """Return the rows to compare at a time; all of them if the shape is not as expected."""
        shape = self._found.shape
        return tuple(slabs(shape)) if shape == self._tensors.shape(self._name) else (None,)

    def _part(self, rows: RowRange | None) -> np.ndarray:
        return self._found if rows is None else self._found[rows.of(ROW_AXIS)]

    def _add(self, rows: RowRange | None) -> None:
        exact, found = self._exact.exact(rows), self._part(rows)
        self._differences.add(found, exact.real)
        apart = self._apart(found, exact)
        self._farthest.append((rows, float(apart.max(initial=0.0))))
        if exact.steps is not None and found.shape == exact.real.shape:
            self._limit = NEAREST + exact.steps.slack
            self.noise.add(self._steps(found, exact), exact.steps)

    def _steps(self, found: np.ndarray, exact: Exact) -> np.ndarray:
        assert exact.steps is not None
        return self._tensors.tensors.steps(found, self._name, exact.steps.step)

    def _apart(self, found: np.ndarray, exact: Exact) -> np.ndarray:
        """Return the distance of each number from the exact one, in steps if it is rounded to a
        grid. Other integers, NaN and infinities must be equal.
        """
        if found.shape != exact.real.shape:
            return np.asarray(np.inf)
        if exact.steps is not None:
            return np.asarray(np.abs(self._steps(found, exact) - exact.steps.steps))
        if found.dtype.kind != "f":
            return np.where(found == exact.real, 0.0, np.inf)
        with np.errstate(invalid="ignore"):
            apart = np.asarray(np.abs(found - exact.real))
        if np.isfinite(apart).all():
            return apart
        same = (found == exact.real) | (np.isnan(found) & np.isnan(exact.real))
        return np.where(same, 0.0, np.where(np.isnan(apart), np.inf, apart))

    @property
    def deviation(self) -> Deviation:
        return self._differences.deviation()

    @property
    def is_on_grid(self) -> bool:
        """True if the definition rounds the tensor to steps."""
        return self._limit is not None

    def is_exact(self, tolerance: float) -> bool:
        """Return whether the tensor is exact up to its last rounding, or up to `tolerance` of the
        range if it is not rounded; the last digits of large numbers that hardly vary are allowed to
        differ. A tie in an intermediate rounding may have gone either way.
        """
        limit, all_of_it = self._limit, self._differences
        if limit is None:
            limit = max(tolerance * all_of_it.reach, LAST_DIGITS * all_of_it.magnitude)
        far = [rows for rows, most in self._farthest if not most <= limit]
        if not far:
            return True
        if not self._exact.rounds_on_the_way:
            return False
        ways = [self._tensors.tensor(self._name, self._given, nudge) for nudge in (TIE, -TIE)]
        return all(self._is_near(rows, ways, limit) for rows in far)

    def _is_near(self, rows: RowRange | None, ways: Sequence[ExactTensor], limit: float) -> bool:
        """Return whether each number is near the result of one of several ways to round."""
        found = self._part(rows)
        least = self._apart(found, self._exact.exact(rows))
        for way in ways:
            least = np.minimum(least, self._apart(found, way.exact(rows)))
        return bool(np.all(least <= limit))

    def is_imitated(self, ways: Sequence[Imitation]) -> bool:
        """Return whether the definition gives the tensor when it reads floats rounded this way."""
        reach = float(np.ptp(self._found)) if self._found.size else 0.0
        exact = [self._tensors.tensor(self._name, self._rounded(way)) for way in ways]
        return all(
            is_imitated(self._part(rows), [one.exact(rows).real for one in exact], reach)
            for rows in self._slabs()
        )

    def _rounded(self, imitation: Callable[[np.ndarray], np.ndarray]) -> Given:
        def value(name: str) -> np.ndarray | None:
            found = self._given(name)
            return found if found is None or found.dtype.kind != "f" else imitation(found)

        return value
