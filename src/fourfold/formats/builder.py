"""The graph under construction: values, constants and nodes, folded as they come."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from fourfold.errors import ModelError
from fourfold.formats.budget import FOLD_LIMIT, Budget, check_shape
from fourfold.formats.names import UniqueNames
from fourfold.formats.refusal import TypeMismatch, Unconvertible
from fourfold.graph import NONE, Graph, Node
from fourfold.op.registry import registry
from fourfold.types import Quantization, TensorType


@dataclass
class GraphBuilder:
    """Grows a graph node by node. Types come from the ops' own rules."""

    budget: Budget
    types: dict[str, TensorType] = field(default_factory=dict)
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    quantization: dict[str, Quantization] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    names: UniqueNames = field(default_factory=UniqueNames)
    folded: set[str] = field(default_factory=set)  # constants that the file does not have itself
    states: dict[str, str] = field(default_factory=dict)  # those in use, and what each holds by now
    starts: dict[str, np.ndarray] = field(default_factory=dict)  # what states begin with, if no 0
    reshaped: bool = False  # the caller gave shapes of his own
    batch_factor: int = 1  # by which the caller has changed the batch, if that alone

    def fresh(self, name: str) -> str:
        """A name that no value has: this one, or this one with a number."""
        found = self.names.fresh(name)
        while found in self.types:
            found = self.names.fresh(name)
        return found

    def constant(self, name: str, array: np.ndarray) -> str:
        self.constants[name] = array
        self.types[name] = TensorType.of(array)
        return name

    def state(self, name: str, type: TensorType) -> str:
        """What a state holds by now: what the last run left there, or what was kept in this one."""
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
        """Takes back nodes and states where what they are for cannot be converted."""
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
        """Adds a node, or its result where all it reads is known; returns the output."""
        type = self._infer(op, inputs, attributes)
        if self._foldable(op, inputs) and self.budget.take(type):
            self.folded.add(output)
            return self.constant(output, self._evaluate(op, inputs, attributes, type))
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

    def _type(self, name: str) -> TensorType:
        if name not in self.types:
            raise ValueError(f"it reads '{name}', which nothing has written before")
        return self.types[name]

    def _foldable(self, op: str, inputs: tuple[str | None, ...]) -> bool:
        known = all(name is None or name in self.constants for name in inputs)
        return known and not registry()[op].heavy and op != "identity"

    def _evaluate(
        self, op: str, inputs: tuple[str | None, ...], attributes: object, type: TensorType
    ) -> np.ndarray:
        arrays = [None if name is None else self.constants[name] for name in inputs]
        with np.errstate(all="ignore"):
            result = np.asarray(registry()[op].reference(attributes, *arrays))
        if result.shape != type.shape:
            raise ValueError(f"{op} gave {list(result.shape)} where {type} was expected")
        return np.asarray(result, type.dtype.numpy, order="C")

    def finish(self, inputs: tuple[str, ...], outputs: tuple[str, ...], name: str) -> Graph:
        """The graph, less what nothing mentions; every output is a value of its own."""
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
