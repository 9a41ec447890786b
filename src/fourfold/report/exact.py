"""What the definitions of a graph's ops make of given values, in double precision."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from fourfold.graph import Graph, Node
from fourfold.op.registry import registry
from fourfold.ops.fake_quantize import FakeQuantize
from fourfold.ops.quantize import Quantize
from fourfold.types import blank_array

Given = Callable[[str], np.ndarray | None]
Rounding = FakeQuantize | Quantize
LAST_DIGITS = 1e-6  # of a sum of floats


class StepsBeforeRounding(NamedTuple):
    """A quantised value as it is before it is rounded: counted in steps from its zero point, within
    the limits of its grid. `step` is how far apart the real numbers are.
    """

    steps: np.ndarray
    step: float
    low: int
    high: int

    @property
    def slack(self) -> float:
        """How many steps the last digits of floats are worth."""
        return LAST_DIGITS * max(abs(self.low), abs(self.high))


class ExactGraph:
    """A graph evaluated backwards from one value to the nearest that are given.

    `given` has what is known of a value, or None; states are what they are before the first run.
    What is all but half way between two steps may go either way: `nudge` moves all that is rounded
    on the way, though not the last rounding, by so many steps.
    """

    def __init__(self, graph: Graph, given: Given, nudge: float = 0.0) -> None:
        self._graph, self._given, self._nudge = graph, given, nudge
        self.rounds_on_the_way = False  # of what was evaluated

    def value(self, name: str) -> np.ndarray:
        """The value by its definition, even where it is given itself."""
        producer = self._graph.producers.get(name)
        if producer is None:
            found = self._known(name)
            assert found is not None, f"nothing makes '{name}'"
            return found
        return self._evaluate(producer, {})[name]

    def before_rounding(self, name: str) -> StepsBeforeRounding | None:
        """The value before its last rounding; None where it is not rounded to a grid."""
        node = self._graph.producers.get(name)
        rounding = None if node is None else rounding_of(node)
        if node is None or rounding is None:
            return None
        source = self._source(str(node.inputs[0]))
        steps = np.clip(source / rounding.scale, rounding.low, rounding.high)
        return StepsBeforeRounding(steps, _distance(rounding), rounding.low, rounding.high)

    def _source(self, name: str) -> np.ndarray:
        found = self._known(name)
        return self.value(name) if found is None else found

    def _evaluate(self, last: Node, values: dict[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Runs what `last` needs in the order of the graph, and `last` itself."""
        needed = self._needed(last, values)
        for node in self._graph.nodes:
            if id(node) in needed:
                self.rounds_on_the_way |= rounding_of(node) is not None
                values.update(zip(node.outputs, self._apply(node, values), strict=True))
        return values

    def _apply(self, node: Node, values: Mapping[str, np.ndarray]) -> tuple[np.ndarray, ...]:
        rounding = rounding_of(node)
        if rounding is not None and self._nudge:
            name = str(node.inputs[0])
            values = {**values, name: values[name] + self._nudge * rounding.scale}
        return _apply(node, values)

    def _needed(self, last: Node, values: dict[str, np.ndarray]) -> set[int]:
        """The nodes between what is given, which goes into `values`, and the last one."""
        needed, pending = {id(last)}, [last]
        while pending:
            for name in pending.pop().reads:
                if name in values:
                    continue
                found = self._known(name)
                if found is not None:
                    values[name] = found
                    continue
                producer = self._graph.producers[name]
                if id(producer) not in needed:
                    needed.add(id(producer))
                    pending.append(producer)
        return needed

    def _known(self, name: str) -> np.ndarray | None:
        graph = self._graph
        if name in graph.constants:
            return in_doubles(graph.constants[name])
        if name in graph.states:
            return in_doubles(graph.starts.get(name, blank_array(graph.types[name])))
        found = self._given(name)
        return None if found is None else in_doubles(found)


def rounding_of(node: Node) -> Rounding | None:
    """The grid that a node rounds to and does nothing else."""
    attributes = node.attributes
    return attributes if isinstance(attributes, FakeQuantize | Quantize) else None


def _distance(rounding: Rounding) -> float:
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
