"""Quantization grids, and the storage of each value and constant of a graph on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from fourfold.formats.writable import StoredAs
from fourfold.graph import Graph, Node
from fourfold.types import DType, Quantization

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
