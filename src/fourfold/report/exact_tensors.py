"""Tensors by the definition of their operators, from our kernels' values or from an engine's."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fourfold.graph import Graph
from fourfold.report.compare import apart_by_range
from fourfold.report.exact import ExactGraph, Given, StepsBeforeRounding
from fourfold.report.rounding import TIE, apart_from_nearest
from fourfold.report.values import FOREIGN, EngineTensors, FileTensors, KernelTensors


@dataclass(frozen=True)
class Exact:
    """What a value should be: before its last rounding, where it has one."""

    real: np.ndarray
    steps: StepsBeforeRounding | None
    rounds_on_the_way: bool


@dataclass(frozen=True)
class ExactTensors:
    """Each tensor by its definition, from the nearest tensors before it."""

    graph: Graph
    tensors: FileTensors
    engine: EngineTensors

    def exact(self, name: str, values: Given, nudge: float = 0.0) -> Exact:
        """The value by its definition, from the nearest tensors before it."""
        own = self.tensors.of(name)

        def given(value: str) -> np.ndarray | None:
            return None if self.tensors.of(value) == own else values(value)

        graph = ExactGraph(self.graph, self._passed(given), nudge)
        steps = graph.before_rounding(name)
        if steps is None:
            return Exact(graph.value(name), None, graph.rounds_on_the_way)
        real = steps.steps * steps.step
        integers = not self.graph.types[name].dtype.is_float
        found = self._stored(name, steps) if integers else real
        return Exact(found, steps, graph.rounds_on_the_way)

    def _passed(self, given: Given) -> Given:
        """What the caller passed is the same on both sides."""

        def with_inputs(value: str) -> np.ndarray | None:
            found = given(value)
            return self.engine.value(value) if found is None and self._is_passed(value) else found

        return with_inputs

    def _is_passed(self, value: str) -> bool:
        """Whether only the engine can give a value: it is an input, or nothing defines it."""
        producer = self.graph.producers.get(value)
        return producer is None or producer.op == FOREIGN

    def _stored(self, name: str, steps: StepsBeforeRounding) -> np.ndarray:
        zero = self.tensors.steps(np.zeros(1, np.int64), name, steps.step)
        return np.asarray(steps.steps - zero)

    def step(self, name: str, exact: Exact) -> float:
        if not self.graph.types[name].dtype.is_float:
            return 1.0 if exact.steps is not None else 0.0
        if exact.steps is not None:
            return exact.steps.step
        grid = self.tensors.grid(name)
        return 0.0 if grid is None else max(grid[0].scale)

    def is_exact(
        self, name: str, values: KernelTensors | EngineTensors, exact: Exact, tolerance: float
    ) -> bool:
        """Whether a result is the exact one, but for the last rounding and what is allowed. A tie
        that was rounded on the way may have gone either way.
        """
        found = values.value(name)
        assert found is not None, f"'{name}' is kept by nobody"
        least = self._apart(name, found, exact, tolerance)
        for nudge in (TIE, -TIE) if exact.rounds_on_the_way else ():
            if np.any(least > 1):
                other = self.exact(name, values.value, nudge)
                least = np.minimum(least, self._apart(name, found, other, tolerance))
        return bool(np.all(least <= 1))

    def _apart(self, name: str, found: np.ndarray, exact: Exact, tolerance: float) -> np.ndarray:
        """How far each number is from the exact one; up to 1 is allowed."""
        if found.shape != exact.real.shape:
            return np.asarray(np.inf)
        if exact.steps is not None:
            return apart_from_nearest(
                self.tensors.steps(found, name, exact.steps.step), exact.steps
            )
        return apart_by_range(found, exact.real, tolerance)
