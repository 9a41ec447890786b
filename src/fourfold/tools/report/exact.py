"""What the definitions of a graph's ops make of given values, in double precision."""

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
LAST_DIGITS = 1e-6  # of a sum of floats
COARSEST = 0.01  # by which a runtime's factor may be off; scales that differ more mean another unit


class StepsBeforeRounding(NamedTuple):
    """A quantised value as it is before it is rounded: counted in steps from its zero point, within
    the limits of its grid. `step` is how far apart the real numbers are. Where some kernels of a
    runtime multiply by a coarse factor, `coarse` times as many steps are what the file says.
    """

    steps: np.ndarray
    step: float
    low: int
    high: int
    coarse: float = 1.0

    @property
    def slack(self) -> float:
        """How many steps the last digits of floats are worth."""
        return LAST_DIGITS * max(abs(self.low), abs(self.high))

    def moved(self, factor: float, by: float) -> StepsBeforeRounding:
        """All of them stretched, and moved by so many steps."""
        if (factor, by) == (1.0, 0.0):
            return self
        return self._replace(steps=np.clip(self.steps * factor + by, self.low, self.high))


class _Part(NamedTuple):
    """A node as it is evaluated: for which rows of its result, from which rows of its inputs."""

    node: Node
    rows: RowRange | None
    inputs: Mapping[str, RowRange | None]


class ExactGraph:
    """A graph evaluated backwards from a value, or some rows of one, to the nearest that are given.

    `given` has what is known of a value, or None; states are what they are before the first run.
    What is all but half way between two steps may go either way: `nudge` moves all that is rounded
    on the way, though not the last rounding, by so many steps.
    """

    def __init__(self, graph: Graph, given: Given, nudge: float = 0.0) -> None:
        self._graph, self._given, self._nudge = graph, given, nudge
        self._known: dict[str, np.ndarray | None] = {}
        self._whole: dict[str, np.ndarray] = {}  # what was made of all rows where some were asked
        self._positions = {id(node): place for place, node in enumerate(graph.nodes)}
        self.rounds_on_the_way = False  # of what was evaluated

    def value(self, name: str, rows: RowRange | None = None) -> np.ndarray:
        """The value by its definition, even where it is given itself."""
        producer, found = self._graph.producers.get(name), self._whole.get(name)
        if producer is not None and found is None:
            return self._evaluate(producer, rows)[name]
        found = self._find(name)
        assert found is not None, f"nothing makes '{name}'"
        return in_doubles(_cut(found, rows, ROW_AXIS))

    def before_rounding(
        self, name: str, rows: RowRange | None = None
    ) -> StepsBeforeRounding | None:
        """The value before its last rounding; None where it is not rounded to a grid."""
        node = self._graph.producers.get(name)
        rounding = None if node is None else grid_rounding(node)
        if node is None or rounding is None:
            return None
        source = self._source(str(node.inputs[0]), rows)
        steps = np.clip(source / rounding.scale, rounding.low, rounding.high)
        distance = grid_distance(rounding)
        coarse = rounding.scale / distance
        ends = (rounding.low, rounding.high)
        known = coarse if abs(coarse - 1) < COARSEST else 1.0
        return StepsBeforeRounding(steps, distance, *ends, known)

    def _source(self, name: str, rows: RowRange | None) -> np.ndarray:
        found = self._find(name)
        return self.value(name, rows) if found is None else in_doubles(_cut(found, rows, ROW_AXIS))

    def _evaluate(self, last: Node, rows: RowRange | None) -> Mapping[str, np.ndarray]:
        """What `last` makes of what is given, and nothing of what is made on the way."""
        parts = self._parts(last, rows)
        covered = {name: part.rows for part in parts for name in part.node.outputs}
        readers = {name: place for place, part in enumerate(parts) for name in part.inputs}
        values: dict[str, np.ndarray] = {}
        for place, part in enumerate(parts):
            self.rounds_on_the_way |= grid_rounding(part.node) is not None
            arrays = {name: self._read(name, part, values, covered) for name in part.inputs}
            made = dict(zip(part.node.outputs, self._apply(part.node, arrays), strict=True))
            if rows is not None and part.rows is None:
                self._whole.update(made)  # the next rows need it again
            values.update(made)
            for name in part.inputs:
                if readers[name] == place:
                    values.pop(name, None)
        left = rows if parts[-1].rows is None else None  # where all rows were made
        return {name: _cut(values[name], left, ROW_AXIS) for name in last.outputs}

    def _parts(self, last: Node, rows: RowRange | None) -> list[_Part]:
        """What is to be evaluated, in the order of the graph."""
        asked: dict[str, RowRange | None] = dict.fromkeys(last.outputs, rows)
        parts = []
        for node in reversed(self._path(last)):
            wanted = _joined([asked[name] for name in node.outputs if name in asked])
            part = self._part(node, wanted)
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
        """The nodes from what is given to the last one."""
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
        """The rows of an input that a part needs, in doubles."""
        rows, result = part.inputs[name], self._graph.types[part.node.outputs[0]].shape
        found, first = values.get(name), 0
        if found is None:
            found = self._find(name)
        else:
            known = covered[name]
            first = 0 if known is None else known.first
        assert found is not None, f"nothing makes '{name}'"
        if rows is None:
            return in_doubles(found)
        axis = len(self._graph.types[name].shape) - len(result) + ROW_AXIS
        return in_doubles(_cut(found, RowRange(rows.first - first, rows.end - first), axis))

    def _apply(self, node: Node, values: Mapping[str, np.ndarray]) -> tuple[np.ndarray, ...]:
        rounding = grid_rounding(node)
        if rounding is not None and self._nudge:
            name = str(node.inputs[0])
            values = {**values, name: values[name] + self._nudge * rounding.scale}
        return _apply(node, values)

    def _find(self, name: str) -> np.ndarray | None:
        """What is known of a value, asked for once."""
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
    """All rows from the first to the last of any; None is all that there are."""
    first, *others = rows
    for other in others:
        first = None if first is None or other is None else first.joined(other)
    return first


def _cut(array: np.ndarray, rows: RowRange | None, axis: int) -> np.ndarray:
    return array if rows is None else array[rows.of(axis)]


def grid_rounding(node: Node) -> Rounding | None:
    """The grid that a node rounds to and does nothing else."""
    attributes = node.attributes
    return attributes if isinstance(attributes, FakeQuantize | Quantize) else None


def grid_distance(rounding: Rounding) -> float:
    """Between neighbouring results. What is rounded may be measured by another scale, where a
    runtime's own factor is a coarse one.
    """
    return rounding.distance if isinstance(rounding, FakeQuantize) else rounding.scale


def in_doubles(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def _apply(node: Node, values: Mapping[str, np.ndarray]) -> tuple[np.ndarray, ...]:
    """A node and its tail."""
    known = registry()
    arrays = [None if name is None else values[name] for name in node.inputs]
    with np.errstate(all="ignore"):
        results = known[node.op].reference(node.attributes, *arrays)
        for step in node.tail:
            running = results[0] if isinstance(results, tuple) else results
            inputs = [running if name is None else values[name] for name in step.inputs]
            results = known[step.op].reference(step.attributes, *inputs)
    return results if isinstance(results, tuple) else (np.asarray(results),)
