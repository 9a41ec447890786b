"""Exact tensors: the definitions of operators applied to our kernels' or an engine's values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fourfold.graph import Graph
from fourfold.tools.report.exact import (
    ExactGraph,
    Given,
    StepsBeforeRounding,
    grid_distance,
    grid_rounding,
)
from fourfold.tools.report.exact_rows import RowRange
from fourfold.tools.report.values import FOREIGN, EngineTensors, FileTensors
from fourfold.types import Shape


@dataclass(frozen=True)
class Exact:
    """The exact value, or some rows of it, and its steps before the last rounding if it has one."""

    real: np.ndarray
    steps: StepsBeforeRounding | None


@dataclass(frozen=True)
class ExactTensor:
    """One tensor, evaluated by its definition."""

    name: str
    graph: ExactGraph
    zero_point: float | None  # for tensors of integers

    @property
    def rounds_on_the_way(self) -> bool:
        return self.graph.rounds_on_the_way

    def exact(self, rows: RowRange | None = None) -> Exact:
        steps = self.graph.before_rounding(self.name, rows)
        if steps is None:
            return Exact(self.graph.value(self.name, rows), None)
        if self.zero_point is None:
            return Exact(steps.steps * steps.step, steps)
        return Exact(steps.steps + self.zero_point, steps)


@dataclass(frozen=True)
class ExactTensors:
    """Each tensor by its definition, from the nearest tensors before it."""

    graph: Graph
    tensors: FileTensors
    engine: EngineTensors

    def tensor(self, name: str, values: Given, nudge: float = 0.0) -> ExactTensor:
        """Return a tensor by its definition, from the nearest tensors before it in `values`."""
        own = self.tensors.of(name)

        def given(value: str) -> np.ndarray | None:
            return None if self.tensors.of(value) == own else values(value)

        graph = ExactGraph(self.graph, self._passed(given), nudge)
        integers = not self.graph.types[name].dtype.is_float
        return ExactTensor(name, graph, self._zero_point(name) if integers else None)

    def _passed(self, given: Given) -> Given:
        """Add the model's inputs, which are the same on both sides."""

        def with_inputs(value: str) -> np.ndarray | None:
            array = given(value)
            return self.engine.value(value) if array is None and self._is_passed(value) else array

        return with_inputs

    def _is_passed(self, value: str) -> bool:
        """Return whether only the engine has a value: it is an input, or has no definition."""
        producer = self.graph.producers.get(value)
        return producer is None or producer.op == FOREIGN

    def _zero_point(self, name: str) -> float:
        return -float(self.tensors.steps(np.zeros(1, np.int64), name, 1.0)[0])

    def shape(self, name: str) -> Shape:
        return self.graph.types[name].shape

    def step(self, name: str) -> float:
        """Return the distance of neighbouring numbers of a quantized value; 0 for others."""
        rounding = grid_rounding(self.graph.producers[name])
        if not self.graph.types[name].dtype.is_float:
            return 0.0 if rounding is None else 1.0
        if rounding is not None:
            return grid_distance(rounding)
        grid = self.tensors.grid(name)
        return 0.0 if grid is None else max(grid[0].scale)
