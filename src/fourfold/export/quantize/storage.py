"""Quantization grids, the storage of each value on them, and the graph that is written to a file.

A node whose result is stored as integers computes on integers, and so does a node whose clamp is
fused into it. All others compute on real numbers. Values that are made as real numbers and read as
integers get a quantized copy. So do inputs and outputs of the model, which stay float.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from fourfold.export.quantize.layers import fused_clamp
from fourfold.formats import Model
from fourfold.formats.writable import StoredAs, WritableModel
from fourfold.graph import Graph, Node
from fourfold.types import DType, Quantization, TensorType

MIN_SCALE = 2.0**-60  # products of two scales are still normal floats
MAX_SCALE = 2.0**60
# The largest integer of weights. Weights are symmetric, so the lowest integer of a type is unused.
_MAX_WEIGHT = {DType.I4: 7, DType.I8: 127}
_BITS = {DType.I4: 4, DType.I8: 8, DType.I16: 16, DType.I32: 32, DType.I64: 64}
_MIN_CHANNEL_SHARE = 2.0**-20  # lower bound of a channel's range, relative to the largest channel
# The largest integer of a bias, which leaves headroom for the products that are added to it.
_MAX_BIAS = {DType.I32: 2.0**30, DType.I64: 2.0**38}


class Range(NamedTuple):
    """The smallest and the largest number that a grid must represent."""

    low: float
    high: float

    def joined(self, other: Range) -> Range:
        return Range(min(self.low, other.low), max(self.high, other.high))


def value_grid(range_: Range, dtype: DType) -> Quantization:
    """Return the grid of a value: asymmetric for I8, with an exact zero; symmetric for I16."""
    low, high = min(range_.low, 0.0), max(range_.high, 0.0)
    if dtype is DType.I16:
        return Quantization((_scale(max(-low, high) / 32767),), (0,))
    scale = _scale((high - low) / 255)
    return Quantization((scale,), (int(np.clip(round(-128 - low / scale), -128, 127)),))


def weight_grid(weights: np.ndarray, dtype: DType, axis: int | None) -> Quantization:
    """Return a symmetric grid: one for all weights, or one per index along the axis."""
    sizes = np.abs(weights.astype(np.float64))
    others = tuple(at for at in range(weights.ndim) if at != axis)
    largest = np.atleast_1d(sizes.max(others if axis is not None else None, initial=0.0))
    overall = float(largest.max(initial=0.0)) or 1.0
    scales = np.maximum(largest, overall * _MIN_CHANNEL_SHARE) / _MAX_WEIGHT[dtype]
    valid = tuple(_scale(scale) for scale in scales)
    return Quantization(valid, (0,) * len(valid), axis)


def widen_for_bias(
    weights: Quantization, bias: np.ndarray, step: float, dtype: DType
) -> Quantization:
    """Return the grid of weights, coarser where the bias would overflow its integers.

    The scale of a bias is the product of the input's step and the weights' step.
    """
    needed = np.abs(bias.astype(np.float64)) / (step * _MAX_BIAS[dtype])
    if weights.axis is None:
        needed = needed.max(initial=0.0)[None]
    pairs = zip(weights.scale, needed, strict=True)
    return Quantization(
        tuple(_scale(max(pair)) for pair in pairs), weights.zero_point, weights.axis
    )


def bias_grid(weights: Quantization, step: float) -> Quantization:
    """Return the grid of a bias, which is that of the products it is added to."""
    scales = tuple(float(np.float32(step * scale)) for scale in weights.scale)
    return Quantization(scales, (0,) * len(scales), None if weights.axis is None else 0)


def rounded(array: np.ndarray, dtype: DType, grid: Quantization | None) -> np.ndarray:
    """Return real numbers after a round trip through the stored type."""
    if grid is None:
        return array.astype(dtype.numpy).astype(np.float32)
    half = 2.0 ** (_BITS[dtype] - 1)
    shape = [1] * array.ndim
    if grid.axis is not None:
        shape[grid.axis] = -1
    scale = np.array(grid.scale, np.float64).reshape(shape)
    point = np.array(grid.zero_point, np.float64).reshape(shape)
    steps = np.clip(np.rint(array / scale) + point, -half, half - 1) - point
    return np.asarray(steps * scale, np.float32)


def _scale(scale: float) -> float:
    """Return a scale as files store it: fp32, within the supported range."""
    return float(np.float32(np.clip(scale, MIN_SCALE, MAX_SCALE)))


Place = tuple[str, int]  # first output of a node, and the index of one of its inputs


@dataclass(frozen=True, eq=False)
class Operand:
    """A constant as one node reads it: its real numbers, and their storage type."""

    array: np.ndarray
    stored: StoredAs

    @property
    def rounded(self) -> np.ndarray:
        """The real numbers after rounding to the storage type."""
        return rounded(self.array, self.stored.dtype, self.stored.quantization)


@dataclass(frozen=True, eq=False)
class StorageAssignment:
    """Storage types of a whole graph.

    Attributes:
        graph: The float graph.
        operands: Constants that are stored in another type, by the input that reads them.
        integer_nodes: First outputs of the nodes that compute on integers.
        grids: Grids of all values that those nodes read or write.
        regrids: Grids of inputs that are read on another grid than they are written on.
    """

    graph: Graph
    operands: Mapping[Place, Operand]
    integer_nodes: frozenset[str] = frozenset()
    grids: Mapping[str, StoredAs] = field(default_factory=dict)
    regrids: Mapping[Place, StoredAs] = field(default_factory=dict)

    def on_integers(self, node: Node) -> bool:
        return node.outputs[0] in self.integer_nodes

    def input_count(self, node: Node) -> int:
        """Return the number of inputs, including operands appended to the node."""
        operands = [at for name, at in self.operands if name == node.outputs[0]]
        return max(len(node.inputs), max(operands, default=-1) + 1)

    def is_made(self, value: str) -> bool:
        """Return True if the node that makes a value computes on integers."""
        producer = self.graph.producers.get(value)
        return producer is not None and self.on_integers(producer)


def fresh_name(name: str, taken: set[str]) -> str:
    """Return the name, or a variant of it that is not taken yet, and mark it as taken."""
    fresh, count = name, 1
    while fresh in taken:
        count += 1
        fresh = f"{name}:{count}"
    taken.add(fresh)
    return fresh


def to_writable(
    storage: StorageAssignment, model: Model, integer_ports: bool = False
) -> WritableModel:
    """Return the model in the form that a writer of any format takes.

    `integer_ports` makes inputs and outputs integers if nodes read or make them as integers.
    """
    work = _Work(storage, integer_ports)
    for node in storage.graph.nodes:
        work.add(node)
    return WritableModel(
        graph=work.graph(),
        input_names=model.input_names,
        output_names=model.output_names,
        stored=work.stored,
        description=model.description,
        metadata=model.metadata,
    )


@dataclass
class _Work:
    """The nodes and storage types so far. `copies` are quantized copies of values."""

    storage: StorageAssignment
    integer_ports: bool
    nodes: list[Node] = field(default_factory=list)
    stored: dict[str, StoredAs] = field(default_factory=dict)
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    copies: dict[tuple[str, StoredAs], str] = field(default_factory=dict)
    inner: dict[str, str] = field(default_factory=dict)  # outputs -> their integer values

    def __post_init__(self) -> None:
        self.types = dict(self.storage.graph.types)
        self.taken = set(self.types)
        if self.integer_ports:
            graph, grids = self.storage.graph, self.storage.grids
            self.stored |= {name: grids[name] for name in graph.arguments if name in grids}

    def add(self, node: Node) -> None:
        count = self.storage.input_count(node)
        inputs = tuple(self._input(node, at) for at in range(count))
        output = node.outputs[0]
        if not self.storage.on_integers(node):
            self.nodes.append(replace(node, inputs=inputs))
            return
        target = self._integer_value(output)
        self.nodes.append(replace(node, inputs=inputs, outputs=(target,)))
        if fused_clamp(self.storage.graph, node) is None:
            self.stored[target] = self.storage.grids[output]
        if target != output:
            self.nodes.append(Node("identity", (target,), (output,), name=node.name))

    def _integer_value(self, output: str) -> str:
        """Return the value that an integer node makes; an output of the model is a float copy
        of it.
        """
        graph = self.storage.graph
        is_port = graph.is_output(output)
        if not is_port or (self.integer_ports and output in graph.results):
            return output
        self.inner[output] = self._new_value(f"{output}/quantized", output)
        return self.inner[output]

    def _input(self, node: Node, at: int) -> str | None:
        place, storage = (node.outputs[0], at), self.storage
        name = node.inputs[at] if at < len(node.inputs) else None
        operand = storage.operands.get(place)
        if operand is not None:
            return self._constant(name or f"{node.outputs[0]}/bias", operand)
        if name is None or not storage.on_integers(node) or name not in storage.grids:
            return name
        stored = storage.regrids.get(place, storage.grids[name])
        on_integers = storage.is_made(name) or name in self.stored
        source = self.inner.get(name, name)
        return (
            source if on_integers and place not in storage.regrids else self._copy(source, stored)
        )

    def _constant(self, name: str, operand: Operand) -> str:
        """Store a constant under its own name, unless another node reads it in another type."""
        known, stored = self.constants.get(name), operand.stored
        equal = known is not None and np.array_equal(known, operand.array)
        if not (equal and self.stored.get(name) == stored):
            name = name if self._is_free(name) else fresh_name(name, self.taken)
            self.constants[name], self.types[name] = operand.array, TensorType.of(operand.array)
            self.taken.add(name)
            if stored.dtype is not DType.F32:
                self.stored[name] = stored
        return name

    def _is_free(self, name: str) -> bool:
        """Return True if a single node reads this constant of the graph, or the name is new."""
        readers = self.storage.graph.readers.get(name, ())
        return name not in self.constants and (len(readers) == 1 or name not in self.taken)

    def _copy(self, name: str, stored: StoredAs) -> str:
        if (name, stored) not in self.copies:
            copy = self._new_value(f"{name}/quantized", name)
            self.nodes.append(Node("identity", (name,), (copy,), name=copy))
            self.stored[copy] = stored
            self.copies[name, stored] = copy
        return self.copies[name, stored]

    def _new_value(self, name: str, like: str) -> str:
        fresh = fresh_name(name, self.taken)
        self.types[fresh] = self.types[like]
        return fresh

    def graph(self) -> Graph:
        graph = self.storage.graph
        constants = {**graph.constants, **self.constants}
        nodes = tuple(self.nodes)
        return graph.with_nodes(nodes, types=self.types, constants=constants, quantization={})
