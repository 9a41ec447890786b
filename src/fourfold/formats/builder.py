"""GraphBuilder: collects values, constants and nodes of a graph and folds constants."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from fourfold.errors import ModelError
from fourfold.formats.budget import FOLD_LIMIT, Budget, check_shape
from fourfold.formats.names import UniqueNames
from fourfold.formats.rule_table import TypeMismatch, Unconvertible
from fourfold.graph import NONE, Graph, Node
from fourfold.ops.base import registry
from fourfold.types import Quantization, Shape, TensorType

BATCH_WORK = 256  # elements that count for one, if the reference handles batches one by one


@dataclass
class GraphBuilder:
    """Builds a graph node by node.

    Types are inferred with the rules of the ops.
    """

    budget: Budget
    types: dict[str, TensorType] = field(default_factory=dict)
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    quantization: dict[str, Quantization] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    names: UniqueNames = field(default_factory=UniqueNames)
    folded: set[str] = field(default_factory=set)  # constants computed while reading
    # Transposed float constants by value and permutation, which operators share.
    transposed: dict[tuple[str, Shape], str] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)  # each state and the value it holds now
    # Initial values of states other than zeros.
    starts: dict[str, np.ndarray] = field(default_factory=dict)
    reshaped: bool = False  # the caller set input shapes
    batch_factor: int = 1  # factor by which the caller changed the batch, if nothing else

    def fresh(self, name: str) -> str:
        """Return an unused value name: this one, or this one with a number."""
        unused = self.names.fresh(name)
        while unused in self.types:
            unused = self.names.fresh(name)
        return unused

    def constant(self, name: str, array: np.ndarray) -> str:
        self.constants[name] = array
        self.types[name] = TensorType.of(array)
        return name

    def state(self, name: str, type: TensorType) -> str:
        """Return the current value of a state: the last one assigned in this run, or the input."""
        if name not in self.states:
            if not type.dtype.has_numpy or type.bytes > FOLD_LIMIT:
                raise Unconvertible(f"the state '{name}' is too large")
            self.types[name] = type
            self.states[name] = name
        now = self.states[name]
        if self.types[now] != type:
            raise Unconvertible(f"the state '{name}' is {self.types[now]}, and {type} is needed")
        return now

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Undo added nodes and states if the operator turns out not to be convertible."""
        count, states = len(self.nodes), dict(self.states)
        try:
            yield
        except (Unconvertible, TypeMismatch):
            del self.nodes[count:]
            self.states = states
            raise

    def node(
        self, op: str, inputs: tuple[str | None, ...], attributes: object, output: str, name: str
    ) -> str:
        """Add a node, or fold it to a constant if all inputs are constants; return the output."""
        type = self._infer(op, inputs, attributes)
        self._check_indices(op, inputs, attributes)
        if self._foldable(op, inputs, attributes, type) and self.budget.take(type):
            self.folded.add(output)
            return self.constant(output, self._evaluate(op, inputs, attributes, type))
        if not self.budget.take_node():
            raise Unconvertible("the operators of the file become too many nodes for its size")
        self.types[output] = type
        self.nodes.append(Node(op, inputs, (output,), attributes, name=name))
        return output

    def _infer(self, op: str, inputs: tuple[str | None, ...], attributes: object) -> TensorType:
        types = tuple(None if name is None else self._type(name) for name in inputs)
        try:
            (type,) = registry()[op].infer(attributes, *types)
        except ModelError as error:
            raise TypeMismatch(op, error.why, types) from error
        check_shape(type.shape)
        return type

    def _check_indices(self, op: str, inputs: tuple[str | None, ...], attributes: object) -> None:
        """Raise ValueError if the indices are constants and some of them are out of range."""
        find = registry()[op].indices
        if find is None:
            return
        types = (None if name is None else self.types[name] for name in inputs)
        valid = find(attributes, *types)
        indices = self.constants.get(inputs[valid.input] or "")
        at = None if indices is None else valid.first_outside(indices)
        if indices is not None and at is not None:
            raise ValueError(f"its index at {list(at)} is {indices[at]}, outside {valid}")

    def _type(self, name: str) -> TensorType:
        if name not in self.types:
            raise ValueError(f"it reads '{name}', which no earlier operator has written")
        return self.types[name]

    def _foldable(
        self, op: str, inputs: tuple[str | None, ...], attributes: object, type: TensorType
    ) -> bool:
        if any(name is not None and name not in self.constants for name in inputs):
            return False
        if registry()[op].heavy or op == "identity":
            return False
        read = sum(self.constants[name].size for name in inputs if name is not None)
        slowness = BATCH_WORK if getattr(attributes, "batch_dims", 0) else 1
        return self.budget.take_work(slowness * (read + type.elements))

    def _evaluate(
        self, op: str, inputs: tuple[str | None, ...], attributes: object, type: TensorType
    ) -> np.ndarray:
        arrays = [None if name is None else self.constants[name] for name in inputs]
        with np.errstate(all="ignore"):
            result = np.asarray(registry()[op].reference(attributes, *arrays))
        if result.shape != type.shape:
            raise ValueError(f"{op} returned {list(result.shape)}, expected {type}")
        return np.asarray(result, type.dtype.numpy, order="C")

    def finish(self, inputs: tuple[str, ...], outputs: tuple[str, ...], name: str) -> Graph:
        """Return the graph without unused values; every output becomes a value of its own."""
        states = dict(self.states)
        inputs = (*inputs, *states)
        taken: set[str] = {*inputs, *states.values()}
        values = []
        for output in outputs:
            if output in taken or output in self.constants:
                copy = self.fresh(f"{output}/out")
                values.append(self.node("identity", (output,), NONE, copy, output))
            else:
                values.append(output)
            taken.add(output)
        results = (*values, *states.values())
        graph = Graph((), inputs, results, self.types, self.constants, self._stored(), name, states)
        starts = {key: array for key, array in self.starts.items() if key in states and array.any()}
        return graph.with_nodes(tuple(self.nodes), starts=starts)

    def _stored(self) -> Mapping[str, Quantization]:
        return {name: item for name, item in self.quantization.items() if name in self.types}
