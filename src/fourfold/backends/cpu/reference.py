"""Runs a graph by the ops' NumPy references: slow, and by definition right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fourfold.backends.cpu.protocol import Lock, Wanted
from fourfold.errors import InputError, nearest
from fourfold.graph import Graph, Node, Step
from fourfold.ops.base import registry
from fourfold.types import Shape, TensorType

Arrays = dict[str, np.ndarray]


def evaluate(
    graph: Graph, inputs: Mapping[str, np.ndarray], states: Arrays | None = None
) -> Arrays:
    """The graph's results by name, for what a caller passes by name.

    `states` is what a run begins with, and has what it ends with afterwards; empty before the
    first one.
    """
    states = {} if states is None else states
    values = {**_zeros(graph), **graph.starts, **states, **_start(graph, inputs)}
    last = _last_readers(graph)
    for position, node in enumerate(graph.nodes):
        values.update(zip(node.outputs, _run(graph, node, values), strict=True))
        for name in node.reads:
            if last[name] == position and name not in graph.outputs:
                values.pop(name, None)
    states.update({name: values[after] for name, after in graph.states.items()})
    return {name: values[name] for name in graph.results}


def _zeros(graph: Graph) -> Arrays:
    """What most states hold before the first run."""
    types = {name: graph.types[name] for name in graph.states}
    return {name: np.zeros(type.shape, type.dtype.numpy) for name, type in types.items()}


def _start(graph: Graph, inputs: Mapping[str, np.ndarray]) -> Arrays:
    """The constants and the inputs, which must be those that the graph has."""
    for name in inputs:
        if name not in graph.arguments:
            why = "the graph does not have it"
            raise InputError(f"no input '{name}'", why, nearest(name, graph.arguments))
    values = dict(graph.constants)
    for name in graph.arguments:
        if name not in inputs:
            raise InputError(f"input '{name}' is missing", "every input is needed", "pass it")
        array = np.asarray(inputs[name])
        if TensorType.of(array) != graph.types[name]:
            why = f"it is {TensorType.of(array)}, and {graph.types[name]} is needed"
            raise InputError(f"input '{name}' does not fit", why, "convert or reshape it")
        values[name] = array
    return values


def _last_readers(graph: Graph) -> Mapping[str, int]:
    return {name: i for i, node in enumerate(graph.nodes) for name in node.reads}


def _run(graph: Graph, node: Node, values: Arrays) -> tuple[np.ndarray, ...]:
    """A node and its tail. A tail follows ops with one result only."""
    with np.errstate(all="ignore"):
        results = _apply(node.op, node.attributes, [_get(name, values) for name in node.inputs])
        for step in node.tail:
            results = _step(step, results[0], values)
    expected = tuple(graph.types[name] for name in node.outputs)
    found = tuple(TensorType.of(array) for array in results)
    if found != expected:
        raise AssertionError(f"{node}: the reference gave {found}, the type rule says {expected}")
    return results


def _step(step: Step, running: np.ndarray, values: Arrays) -> tuple[np.ndarray, ...]:
    arrays = [running if name is None else values[name] for name in step.inputs]
    return _apply(step.op, step.attributes, arrays)


def _get(name: str | None, values: Arrays) -> np.ndarray | None:
    return None if name is None else values[name]


def _apply(
    op: str, attributes: object, arrays: list[np.ndarray | None] | list[np.ndarray]
) -> tuple[np.ndarray, ...]:
    results = registry()[op].reference(attributes, *arrays)
    if isinstance(results, tuple):
        return results
    return (np.asarray(results),)


class NumpyPart:
    """A graph made ready to be run by the references: arrays in, arrays out, in its own order."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._states: Arrays = {}

    def run(self, arrays: Sequence[np.ndarray], wanted: Wanted | None = None) -> list[np.ndarray]:
        given = dict(zip(self._graph.arguments, arrays, strict=True))
        results = evaluate(self._graph, given, self._states)
        return [results[name] for name in self._graph.results]

    def shapes(self) -> Mapping[str, Shape]:
        """None: a definition gives what the graph says."""
        return {}

    def direct(self, inputs: Mapping[str, str], outputs: Mapping[str, str], lock: Lock) -> None:
        """There is no shorter way than `run`."""

    def reset(self) -> None:
        """Forget all states."""
        self._states = {}

    def close(self) -> None:
        """Nothing is held."""
