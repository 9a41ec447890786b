"""Runs graphs with the operators' NumPy definitions: slow, but correct by definition."""

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
    """Return the graph's results by name, for inputs by name.

    `states` has the states before the run and is updated with those after it; it is empty before
    the first run.
    """
    states = {} if states is None else states
    values = {**_zeros(graph), **graph.starts, **states, **_start(graph, inputs)}
    last = _last_readers(graph)
    for position, node in enumerate(graph.nodes):
        values.update(zip(node.outputs, _run(graph, node, values), strict=True))
        for name in node.reads:
            if last[name] == position and not graph.is_output(name):
                values.pop(name, None)
    states.update({name: values[after] for name, after in graph.states.items()})
    return {name: values[name] for name in graph.results}


def _zeros(graph: Graph) -> Arrays:
    """Return the initial states, which are zeros for most models."""
    types = {name: graph.types[name] for name in graph.states}
    return {name: np.zeros(type.shape, type.dtype.numpy) for name, type in types.items()}


def _start(graph: Graph, inputs: Mapping[str, np.ndarray]) -> Arrays:
    """Return the constants and the inputs, after checking that the inputs match the graph."""
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
            raise InputError(f"input '{name}' has the wrong type", why, "convert or reshape it")
        values[name] = array
    return values


def _last_readers(graph: Graph) -> Mapping[str, int]:
    return {name: i for i, node in enumerate(graph.nodes) for name in node.reads}


def _run(graph: Graph, node: Node, values: Arrays) -> tuple[np.ndarray, ...]:
    """Run a node and its fused tail. Only operators with one result have a tail."""
    _check_indices(graph, node, values)
    with np.errstate(all="ignore"):
        results = _apply(node.op, node.attributes, [_get(name, values) for name in node.inputs])
        for step in node.tail:
            results = _step(step, results[0], values)
    expected = tuple(graph.types[name] for name in node.outputs)
    actual = tuple(TensorType.of(array) for array in results)
    if actual != expected:
        raise AssertionError(
            f"{node}: the reference returned {actual}, the type rule says {expected}"
        )
    return results


def _check_indices(graph: Graph, node: Node, values: Arrays) -> None:
    """Raise an InputError for an index that is out of range, as other CPU engines do."""
    find = registry()[node.op].indices
    if find is None:
        return
    valid = find(node.attributes, *graph.input_types(node))
    indices = values[node.inputs[valid.input] or ""]
    at = valid.first_outside(indices)
    if at is not None:
        what = f"'{node.name or node.outputs[0]}' ({node.op}) looks up index {indices[at]}"
        why = f"valid indices are {valid}"
        raise InputError(what, why, "check the inputs of the model: they may contain indices")


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
    """A part that runs with the NumPy definitions; arrays are in the graph's order."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._states: Arrays = {}

    def run(self, arrays: Sequence[np.ndarray], wanted: Wanted | None = None) -> list[np.ndarray]:
        inputs = dict(zip(self._graph.arguments, arrays, strict=True))
        results = evaluate(self._graph, inputs, self._states)
        return [results[name] for name in self._graph.results]

    def shapes(self) -> Mapping[str, Shape]:
        """Return nothing: results have the shapes of the graph."""
        return {}

    def direct(self, inputs: Mapping[str, str], outputs: Mapping[str, str], lock: Lock) -> None:
        """Return None: there is no faster path than `run`."""

    def reset(self) -> None:
        """Reset all states."""
        self._states = {}

    def close(self) -> None:
        """Do nothing: there are no resources to release."""
