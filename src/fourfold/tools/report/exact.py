"""Exact evaluation of a graph: the NumPy definitions of its ops, in double precision."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fourfold.graph import Graph, Node
from fourfold.ops.base import registry
from fourfold.ops.fake_quantize import FakeQuantize
from fourfold.ops.quantize import Quantize
from fourfold.tools.report.exact_rows import ROW_AXIS, RowRange, needed_rows
from fourfold.types import blank_array

Given = Callable[[str], np.ndarray | None]
Rounding = FakeQuantize | Quantize
LAST_DIGITS = 1e-6  # relative error of a sum of floats
MAX_FACTOR_ERROR = 0.01  # relative error of a runtime's factor; larger ones mean another unit


class StepsBeforeRounding(NamedTuple):
    """A quantized value before rounding, in steps from its zero point, within the limits of its
    grid. `step` is the distance of neighbouring real values. If some kernels of a runtime multiply
    by a coarse factor, the file says `coarse` times as many steps.
    """

    steps: np.ndarray
    step: float
    low: int
    high: int
    coarse: float = 1.0

    @property
    def slack(self) -> float:
        """Rounding error of floats, in steps."""
        return LAST_DIGITS * max(abs(self.low), abs(self.high))

    def moved(self, factor: float, by: float) -> StepsBeforeRounding:
        """Return the steps multiplied by `factor` and shifted by `by` steps."""
        if (factor, by) == (1.0, 0.0):
            return self
        return self._replace(steps=np.clip(self.steps * factor + by, self.low, self.high))


class _Part(NamedTuple):
    """A node to evaluate: the rows of its result, and the rows of its inputs that they need."""

    node: Node
    rows: RowRange | None
    inputs: Mapping[str, RowRange | None]


class ExactGraph:
    """Evaluates a value, or some rows of it, from the nearest values before it that are given.

    `given` returns a known value, or None. States have their initial values. A number almost half
    way between two steps may be rounded either way: `nudge` shifts the operands of all intermediate
    roundings, but not of the last one, by this many steps.
    """

    def __init__(self, graph: Graph, given: Given, nudge: float = 0.0) -> None:
        self._graph, self._given, self._nudge = graph, given, nudge
        self._known: dict[str, np.ndarray | None] = {}
        self._whole: dict[str, np.ndarray] = {}  # results of nodes that need all rows
        self._positions = {id(node): place for place, node in enumerate(graph.nodes)}
        self.rounds_on_the_way = False  # whether an evaluated node rounds to a grid

    def value(self, name: str, rows: RowRange | None = None) -> np.ndarray:
        """Return the value by its definition, even if it is given itself."""
        producer, array = self._graph.producers.get(name), self._whole.get(name)
        if producer is not None and array is None:
            return self._evaluate(producer, rows)[name]
        array = self._find(name)
        assert array is not None, f"nothing produces '{name}'"
        return in_doubles(_cut(array, rows, ROW_AXIS))

    def before_rounding(
        self, name: str, rows: RowRange | None = None
    ) -> StepsBeforeRounding | None:
        """Return the value before its last rounding; None if it is not rounded to a grid."""
        node = self._graph.producers.get(name)
        rounding = None if node is None else grid_rounding(node)
        if node is None or rounding is None:
            return None
        source = self._source(str(node.inputs[0]), rows)
        steps = np.clip(source / rounding.scale, rounding.low, rounding.high)
        distance = grid_distance(rounding)
        coarse = rounding.scale / distance
        factor = coarse if abs(coarse - 1) < MAX_FACTOR_ERROR else 1.0
        return StepsBeforeRounding(steps, distance, rounding.low, rounding.high, factor)

    def _source(self, name: str, rows: RowRange | None) -> np.ndarray:
        array = self._find(name)
        return self.value(name, rows) if array is None else in_doubles(_cut(array, rows, ROW_AXIS))

    def _evaluate(self, last: Node, rows: RowRange | None) -> Mapping[str, np.ndarray]:
        """Return the results of `last`; intermediate values are freed after their last use."""
        parts = self._parts(last, rows)
        covered = {name: part.rows for part in parts for name in part.node.outputs}
        readers = {name: place for place, part in enumerate(parts) for name in part.inputs}
        values: dict[str, np.ndarray] = {}
        for place, part in enumerate(parts):
            self.rounds_on_the_way |= grid_rounding(part.node) is not None
            arrays = {name: self._read(name, part, values, covered) for name in part.inputs}
            results = dict(zip(part.node.outputs, self._apply(part.node, arrays), strict=True))
            if rows is not None and part.rows is None:
                self._whole.update(results)  # the next rows need them again
            values.update(results)
            for name in part.inputs:
                if readers[name] == place:
                    values.pop(name, None)
        left = rows if parts[-1].rows is None else None  # if all rows were computed
        return {name: _cut(values[name], left, ROW_AXIS) for name in last.outputs}

    def _parts(self, last: Node, rows: RowRange | None) -> list[_Part]:
        """Return the nodes to evaluate, with their rows, in the order of the graph."""
        asked: dict[str, RowRange | None] = dict.fromkeys(last.outputs, rows)
        parts = []
        for node in reversed(self._path(last)):
            needed_by_readers = [asked[name] for name in node.outputs if name in asked]
            part = self._part(node, _joined(needed_by_readers))
            for name, needed in part.inputs.items():
                asked[name] = _joined([asked[name], needed]) if name in asked else needed
            parts.append(part)
        return parts[::-1]

    def _part(self, node: Node, rows: RowRange | None) -> _Part:
        types = self._graph.types
        shapes = [None if name is None else types[name].shape for name in node.inputs]
        result = types[node.outputs[0]].shape
        needed = None if rows is None else needed_rows(node, shapes, result, rows)
        if needed is None:
            return _Part(node, None, dict.fromkeys(node.reads))
        inputs: dict[str, RowRange | None] = {}
        for name, one in zip(node.inputs, needed.inputs, strict=True):
            if name is not None:
                inputs[name] = _joined([inputs[name], one]) if name in inputs else one
        return _Part(needed.node, rows, inputs)

    def _path(self, last: Node) -> list[Node]:
        """Return the nodes from given values to the last node."""
        needed, pending = {id(last): last}, [last]
        while pending:
            for name in pending.pop().reads:
                if self._find(name) is not None:
                    continue
                producer = self._graph.producers[name]
                if id(producer) not in needed:
                    needed[id(producer)] = producer
                    pending.append(producer)
        return sorted(needed.values(), key=lambda node: self._positions[id(node)])

    def _read(
        self,
        name: str,
        part: _Part,
        values: Mapping[str, np.ndarray],
        covered: Mapping[str, RowRange | None],
    ) -> np.ndarray:
        """Return the rows of an input that a part needs, in double precision."""
        rows, result = part.inputs[name], self._graph.types[part.node.outputs[0]].shape
        array, first = values.get(name), 0
        if array is None:
            array = self._find(name)
        else:
            computed = covered[name]
            first = 0 if computed is None else computed.first
        assert array is not None, f"nothing produces '{name}'"
        if rows is None:
            return in_doubles(array)
        axis = len(self._graph.types[name].shape) - len(result) + ROW_AXIS
        return in_doubles(_cut(array, RowRange(rows.first - first, rows.end - first), axis))

    def _apply(self, node: Node, values: Mapping[str, np.ndarray]) -> tuple[np.ndarray, ...]:
        rounding = grid_rounding(node)
        if rounding is not None and self._nudge:
            name = str(node.inputs[0])
            values = {**values, name: values[name] + self._nudge * rounding.scale}
        return _apply(node, values)

    def _find(self, name: str) -> np.ndarray | None:
        """Return a constant, a state or a given value; each is looked up once."""
        if name in self._whole:
            return self._whole[name]
        if name not in self._known:
            self._known[name] = self._asked(name)
        return self._known[name]

    def _asked(self, name: str) -> np.ndarray | None:
        graph = self._graph
        if name in graph.constants:
            return graph.constants[name]
        if name in graph.states:
            return np.asarray(graph.starts.get(name, blank_array(graph.types[name])))
        return self._given(name)


def _joined(rows: Sequence[RowRange | None]) -> RowRange | None:
    """Return the range that covers all the given ranges; None stands for all rows."""
    first, *others = rows
    for other in others:
        first = None if first is None or other is None else first.joined(other)
    return first


def _cut(array: np.ndarray, rows: RowRange | None, axis: int) -> np.ndarray:
    return array if rows is None else array[rows.of(axis)]


def grid_rounding(node: Node) -> Rounding | None:
    """Return the grid of a node that only rounds; None for other nodes."""
    attributes = node.attributes
    return attributes if isinstance(attributes, FakeQuantize | Quantize) else None


def grid_distance(rounding: Rounding) -> float:
    """Return the distance of neighbouring results. The operand may have another scale, if the
    runtime's own factor is a coarse one.
    """
    return rounding.distance if isinstance(rounding, FakeQuantize) else rounding.scale


def in_doubles(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def _apply(node: Node, values: Mapping[str, np.ndarray]) -> tuple[np.ndarray, ...]:
    """Evaluate a node and its tail."""
    ops = registry()
    arrays = [None if name is None else values[name] for name in node.inputs]
    with np.errstate(all="ignore"):
        results = ops[node.op].reference(node.attributes, *arrays)
        for step in node.tail:
            running = results[0] if isinstance(results, tuple) else results
            inputs = [running if name is None else values[name] for name in step.inputs]
            results = ops[step.op].reference(step.attributes, *inputs)
    return results if isinstance(results, tuple) else (np.asarray(results),)
