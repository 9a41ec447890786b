"""The graph under construction: values, constants and nodes, folded as they come."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from fourfold.errors import ModelError
from fourfold.formats.model import Names
from fourfold.formats.tflite.constants import check_shape
from fourfold.graph import NONE, Graph, Node
from fourfold.op.registry import registry
from fourfold.types import DType, Quantization, TensorType, dequantize

FOLD_LIMIT = 64 << 20  # bytes of one result that is made from little
FOLD_TOTAL = 512 << 20  # bytes of all results beyond what unpacking the file may take
UNPACKED = 8  # numbers of four bits that become floats take eight times the room


class Refuse(Exception):
    """An operator cannot be converted; the reason goes into the list of refusals."""


class Rejected(Exception):
    """A type rule says that the inputs do not fit the op."""

    def __init__(self, op: str, why: str, types: tuple[TensorType | None, ...]) -> None:
        super().__init__(op, why, types)
        self.why = f"{op}: {why}"
        self.only_floats = all(type is None or type.dtype is DType.F32 for type in types)


@dataclass
class Budget:
    """How many bytes of folded constants a file may still ask for."""

    left: int

    @staticmethod
    def of(size: int) -> Budget:
        """What a file of so many bytes may ask for."""
        return Budget(UNPACKED * size + FOLD_TOTAL)

    def take(self, type: TensorType, stored: int = 0) -> bool:
        """Whether a result made from so many stored bytes may be computed now; counts it if so."""
        limit = min(self.left, max(FOLD_LIMIT, UNPACKED * stored))
        if not type.dtype.has_numpy or type.bytes > limit:
            return False
        self.left -= type.bytes
        return True


@dataclass
class Builder:
    """Grows a graph node by node. Types come from the ops' own rules."""

    budget: Budget
    types: dict[str, TensorType] = field(default_factory=dict)
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    quantization: dict[str, Quantization] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    names: Names = field(default_factory=Names)
    reals: dict[str, str] = field(default_factory=dict)
    reshaped: bool = False  # the caller gave shapes of his own
    factor: int = 1  # by which the caller has changed the batch, if that alone
    changed: dict[str, np.ndarray] = field(default_factory=dict)  # the file's, for other shapes
    folded: set[str] = field(default_factory=set)  # constants that the file does not have itself
    variables: dict[str, TensorType] = field(default_factory=dict)  # what the file has as states
    states: dict[str, str] = field(default_factory=dict)  # those in use, and what each holds by now
    starts: dict[str, np.ndarray] = field(default_factory=dict)  # what states begin with, if no 0
    handles: dict[str, str] = field(default_factory=dict)  # values that stand for a state
    starting: bool = False  # what is assigned now is what states begin with

    def constant(self, name: str, array: np.ndarray) -> str:
        self.constants[name] = array
        self.types[name] = TensorType.of(array)
        return name

    def state(self, name: str, type: TensorType) -> str:
        """What a state holds by now: what the last run left there, or what was kept in this one."""
        if name not in self.states:
            if not type.dtype.has_numpy or type.bytes > FOLD_LIMIT:
                raise Refuse(f"the state '{name}' is too large")
            self.types[name] = type
            self.states[name] = name
        now = self.states[name]
        if self.types[now] != type:
            raise Refuse(f"the state '{name}' is {self.types[now]}, and {type} is needed")
        return now

    def changed_constants(self) -> Mapping[str, np.ndarray]:
        """Constants of the file that must be others for the shapes that the caller has given."""
        return {
            name: array
            for name, array in self.changed.items()
            if not np.array_equal(array, self.constants[name])
        }

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Takes back nodes and states where what they are for cannot be converted."""
        count, states = len(self.nodes), dict(self.states)
        try:
            yield
        except (Refuse, Rejected):
            del self.nodes[count:]
            self.states = states
            raise

    def real(self, name: str) -> str:
        """The same constant as f32: dequantised, or widened from f16."""
        if name not in self.reals:
            stored = self.constants[name]
            if not self.budget.take(self.types[name].with_dtype(DType.F32), stored.nbytes):
                raise Refuse(f"'{name}' is too large to be dequantised")
            quantization = self.quantization.get(name)
            real = self.constant(
                self.names.fresh(f"{name}/float"), dequantize(stored, quantization)
            )
            self.reals[name] = real
            if quantization is not None:
                self.quantization[real] = quantization
        return self.reals[name]

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
        types = tuple(None if name is None else self.types[name] for name in inputs)
        try:
            (type,) = registry()[op].infer(attributes, *types)
        except ModelError as error:
            raise Rejected(op, error.why, types) from error
        check_shape(type.shape)
        return type

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
                copy = self.names.fresh(f"{output}/out")
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
