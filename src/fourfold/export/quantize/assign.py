"""Assign storage types: grids from observed ranges, grids of constants, and corrected biases.

Rounded weights shift the mean of a sum: x * (w + d) exceeds x * w by x * d, whose mean follows from
the mean of x. The bias compensates it. Fewer products are added at the edges of a picture, which is
neglected.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fourfold.export.quantize.layers import LayerNodes, integer_nodes, weight_inputs
from fourfold.export.quantize.method import Method
from fourfold.export.quantize.rules import CHANNEL_AXIS, LIMITS, MOVES, float_inputs
from fourfold.export.quantize.sharing import share_grids
from fourfold.export.quantize.storage import (
    Operand,
    Place,
    Range,
    StorageAssignment,
    bias_grid,
    value_grid,
    weight_grid,
    widen_for_bias,
)
from fourfold.formats.writable import StoredAs
from fourfold.graph import Graph, Node
from fourfold.ops.conv2d import Conv2d
from fourfold.ops.depthwise_conv2d import DepthwiseConv2d
from fourfold.types import DType, Quantization


def corrected_bias(
    node: Node, bias: np.ndarray | None, errors: np.ndarray, means: np.ndarray
) -> np.ndarray:
    """Return the bias of a weighted sum minus the mean error of its weights.

    `means` are the channel means of its input.
    """
    shift = _mean_shift(node, errors.astype(np.float64), means)
    old = 0.0 if bias is None else bias.astype(np.float64)
    return np.asarray(old - shift, np.float32)


def _mean_shift(node: Node, errors: np.ndarray, means: np.ndarray) -> np.ndarray:
    attributes = node.attributes
    if isinstance(attributes, DepthwiseConv2d):
        return np.asarray(errors.sum((0, 1, 2)) * np.repeat(means, attributes.multiplier))
    taps = errors if errors.ndim == 2 else errors.sum((1, 2))
    groups = attributes.groups if isinstance(attributes, Conv2d) else 1
    parts = means.reshape(groups, -1)
    by_group = taps.reshape(groups, -1, taps.shape[-1])
    return np.asarray(np.einsum("goi,gi->go", by_group, parts).reshape(-1))


@dataclass(frozen=True, eq=False)
class Observations:
    """Statistics from samples: ranges of values, and channel means of inputs of weighted sums."""

    ranges: Mapping[str, Range] = field(default_factory=dict)
    means: Mapping[str, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Assigner:
    """Assigns storage types for a model and a method, given the layers that stay float."""

    graph: Graph
    method: Method
    layers: Sequence[LayerNodes]
    observations: Observations
    per_channel: bool = True

    def assign(self, kept: Collection[str]) -> StorageAssignment:
        """Return the storage of all values and constants if the `kept` layers stay float."""
        if self.method.values is None:
            return StorageAssignment(self.graph, self._weights_alone(kept))
        nodes = integer_nodes(self.graph, self.layers, kept, self.method)
        return _IntegerWork(self, nodes, self.method.values).storage()

    def _weights_alone(self, kept: Collection[str]) -> dict[Place, Operand]:
        changed = {name for layer in self.layers if layer.name not in kept for name in layer.nodes}
        operands: dict[Place, Operand] = {}
        for node in self.graph.nodes:
            if node.outputs[0] in changed:
                for at in weight_inputs(self.graph, node, self.method):
                    operands[node.outputs[0], at] = self._weights(node, at)
                operands |= self._corrections(node, operands)
        return operands

    def _weights(self, node: Node, at: int) -> Operand:
        array, dtype = self.graph.constants[str(node.inputs[at])], self.method.weights
        grid = None if dtype.is_float else self.weight_grid(node, array)
        return Operand(array, StoredAs(dtype, grid))

    def _corrections(self, node: Node, operands: Mapping[Place, Operand]) -> dict[Place, Operand]:
        """Return the corrected bias of a weighted sum, if channel means are known."""
        weights = operands.get((node.outputs[0], 1))
        if weights is None or node.op not in CHANNEL_AXIS:
            return {}
        bias = self.bias(node, weights)
        same = bias is None or (len(node.inputs) > 2 and bias is self._own_bias(node))
        if bias is None or same:
            return {}
        half = self.method.weights is DType.F16
        return {(node.outputs[0], 2): Operand(bias, StoredAs(DType.F16 if half else DType.F32))}

    def weight_grid(self, node: Node, array: np.ndarray) -> Quantization:
        axis = CHANNEL_AXIS[node.op] if self.per_channel else None
        return weight_grid(array, self.method.weights, axis)

    def bias(self, node: Node, weights: Operand) -> np.ndarray | None:
        """Return the bias of a weighted sum minus the mean error of its rounded weights."""
        own, means = self._own_bias(node), self.observations.means.get(str(node.inputs[0]))
        if means is None:
            return own
        return corrected_bias(node, own, weights.rounded - weights.array, means)

    def _own_bias(self, node: Node) -> np.ndarray | None:
        name = node.inputs[2] if len(node.inputs) > 2 else None
        return None if name is None else self.graph.constants[name]


class _IntegerWork:
    """One assignment of grids to the nodes that compute on integers."""

    def __init__(self, assigner: Assigner, nodes: frozenset[str], values: DType) -> None:
        self._assigner, self._graph, self._nodes = assigner, assigner.graph, nodes
        self._values = values
        self._shared = share_grids(self._graph, nodes, values)
        self._ranges = self._shared.ranges(assigner.observations.ranges)
        self._operands: dict[Place, Operand] = {}

    def storage(self) -> StorageAssignment:
        grids: dict[str, StoredAs] = {}
        for node in self._graph.nodes:
            if node.outputs[0] in self._nodes:
                names = [str(node.inputs[at]) for at in self._live(node)]
                grids |= {name: self._stored(name) for name in (*names, *node.outputs)}
                self._add_operands(node)
        regrids = {place: self._stored(place[0]) for place in self._shared.regrids}
        return StorageAssignment(self._graph, self._operands, self._nodes, grids, regrids)

    def _live(self, node: Node) -> list[int]:
        inputs = float_inputs(self._graph, node)
        return [at for at in inputs if node.inputs[at] not in self._graph.constants]

    def _grid(self, value: str) -> Quantization:
        fixed, root = self._shared.fixed_grid(value), self._shared.root(value)
        return value_grid(self._ranges[root], self._values) if fixed is None else fixed

    def _stored(self, value: str) -> StoredAs:
        return StoredAs(self._values, self._grid(value))

    def _add_operands(self, node: Node) -> None:
        if node.op in CHANNEL_AXIS:
            self._add_sum(node)
            return
        for at in float_inputs(self._graph, node):
            array = self._graph.constants.get(str(node.inputs[at]))
            if array is not None:
                self._operands[node.outputs[0], at] = Operand(array, self._constant(node, array))

    def _constant(self, node: Node, array: np.ndarray) -> StoredAs:
        """Return the storage of a constant: its own grid, unless the operator requires a
        shared one.
        """
        if node.op in MOVES or node.op in LIMITS:
            return self._stored(node.outputs[0])
        range_ = Range(float(array.min(initial=0.0)), float(array.max(initial=0.0)))
        return StoredAs(self._values, value_grid(range_, self._values))

    def _add_sum(self, node: Node) -> None:
        assigner, method = self._assigner, self._assigner.method
        assert method.bias is not None
        array = self._graph.constants[str(node.inputs[1])]
        grid = assigner.weight_grid(node, array)
        step = self._grid(str(node.inputs[0])).scale[0]
        bias = assigner.bias(node, Operand(array, StoredAs(method.weights, grid)))
        if bias is not None:
            grid = widen_for_bias(grid, bias, step, method.bias)
            stored = StoredAs(method.bias, bias_grid(grid, step))
            self._operands[node.outputs[0], 2] = Operand(bias, stored)
        self._operands[node.outputs[0], 1] = Operand(array, StoredAs(method.weights, grid))
