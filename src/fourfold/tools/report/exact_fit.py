"""One value beside the exact one, a few rows at a time: how far it is, and whether roundings are
the whole of that.
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
    """A tensor of our kernels or of an engine beside what its definition makes of their values."""

    def __init__(self, tensors: ExactTensors, name: str, values: Values) -> None:
        found = values.value(name)
        assert found is not None, f"'{name}' is kept by nobody"
        self._tensors, self._name, self._found = tensors, name, found
        self._given: Given = cache(values.value)
        self._exact = tensors.tensor(name, self._given)
        self._differences = Differences()
        self._limit: float | None = None  # that rounding leaves, for what is rounded to steps
        self._farthest: list[tuple[RowRange | None, float]] = []
        self.noise = RoundingNoise(found.size, tensors.tensors.zero_shift(name))
        for rows in self._slabs():
            self._add(rows)

    def _slabs(self) -> Sequence[RowRange | None]:
        """All at once where the shape is none that was expected."""
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
        """How far each number is from the exact one: in steps where it is rounded to some. Other
        integers have to be the same, and so has what is no number.
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
        """Whether the definition rounds it to steps."""
        return self._limit is not None

    def is_exact(self, tolerance: float) -> bool:
        """Whether it is the exact one, but for the last rounding, or `tolerance` of the range for
        what is not rounded; numbers that hardly differ have their last digits all the same. A tie
        that was rounded on the way may have gone either way.
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
        """Whether each number is near what one of several ways to round gives."""
        found = self._part(rows)
        least = self._apart(found, self._exact.exact(rows))
        for way in ways:
            least = np.minimum(least, self._apart(found, way.exact(rows)))
        return bool(np.all(least <= limit))

    def is_imitated(self, ways: Sequence[Imitation]) -> bool:
        """Whether the definition gives it where all floats that it reads are rounded so."""
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
