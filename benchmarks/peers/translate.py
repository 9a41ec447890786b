"""Translates a rewritten graph to another engine.

Values of rank four are NCHW there, whatever layout the engine uses in memory; others are unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from fourfold.graph import Graph, Node, Step
from fourfold.ops.base.rules import Reduce, Resize
from fourfold.ops.base.window import NO_PADDING, Padding, Pair, Pool2d
from fourfold.ops.concat import Concat
from fourfold.ops.conv2d import Conv2d
from fourfold.ops.depthwise_conv2d import DepthwiseConv2d
from fourfold.ops.pad import Pad
from fourfold.types import Shape
from peers import Missing, planes

CHANNELS = {0: 0, 1: 2, 2: 3, 3: 1}  # the axes of NHWC in NCHW
Value = Any


@dataclass(frozen=True)
class Constant:
    """A named array of the model."""

    name: str
    array: np.ndarray


@dataclass(frozen=True)
class Convolution:
    """Attributes of a convolution with weights of shape [O, I / groups, H, W]."""

    weights: Constant
    bias: Constant | None
    stride: Pair
    dilation: Pair
    padding: Padding
    groups: int


class Engine(Protocol):
    """Operations that an engine must provide."""

    def convolve(self, x: Value, how: Convolution) -> Value: ...
    def connect(self, x: Value, weights: Constant, bias: Constant | None) -> Value: ...
    def max_pool(self, x: Value, pool: Pool2d) -> Value: ...
    def average_pool(self, x: Value, pool: Pool2d) -> Value: ...
    def resize(self, x: Value, size: Pair, align_corners: bool) -> Value: ...
    def mean(self, x: Value) -> Value: ...
    def clip(self, x: Value, most: float | None) -> Value: ...
    def prelu(self, x: Value, slope: Constant) -> Value: ...
    def logistic(self, x: Value) -> Value: ...
    def softmax(self, x: Value) -> Value: ...
    def add(self, a: Value, b: Value) -> Value: ...
    def pad(self, x: Value, around: Sequence[tuple[int, int]]) -> Value: ...
    def concat(self, parts: Sequence[Value], axis: int) -> Value: ...
    def reshape(self, x: Value, before: Shape, after: Shape) -> Value: ...


def translate(graph: Graph, engine: Engine, inputs: Sequence[Value]) -> list[Value]:
    """Translate a graph, and return its outputs in order."""
    walk = _Walk(graph, engine, dict(zip(graph.inputs, inputs, strict=True)))
    for node in graph.nodes:
        walk.take(node)
    return [walk.values[name] for name in graph.outputs]


class _Walk:
    def __init__(self, graph: Graph, engine: Engine, values: dict[str, Value]) -> None:
        self.graph, self.engine, self.values = graph, engine, values

    def take(self, node: Node) -> None:
        method = getattr(self, node.op, None)
        if method is None:
            method = getattr(self, f"step_{node.op}", None)
            if method is None:
                raise Missing(f"no translation of {node.op}")
            others = [self.values[str(name)] for name in node.inputs[1:]]
            result = method(self.values[str(node.inputs[0])], others)
        else:
            result = method(node)
        for step in node.tail:
            result = self.step(step, result)
        self.values[node.outputs[0]] = result

    def step(self, step: Step, result: Value) -> Value:
        method = getattr(self, f"step_{step.op}", None)
        if method is None:
            raise Missing(f"no translation of {step.op}")
        others = [
            self.constant(name) if name in self.graph.constants else self.values[name]
            for name in step.inputs
            if name is not None
        ]
        return method(result, others)

    def constant(self, name: str | None) -> Constant | None:
        return None if name is None else Constant(name, self.graph.constants[name])

    def needed(self, name: str | None) -> Constant:
        constant = self.constant(name)
        assert constant is not None
        return constant

    def first(self, node: Node) -> Value:
        return self.values[str(node.inputs[0])]

    def bias(self, node: Node) -> Constant | None:
        return self.constant(node.inputs[2]) if len(node.inputs) > 2 else None

    def conv2d(self, node: Node) -> Value:
        how, weights = node.attributes, self.needed(node.inputs[1])
        assert isinstance(how, Conv2d)
        turned = Constant(weights.name, planes(weights.array))
        shape = (how.stride, how.dilation, how.padding, how.groups)
        return self.engine.convolve(self.first(node), Convolution(turned, self.bias(node), *shape))

    def depthwise_conv2d(self, node: Node) -> Value:
        how, weights = node.attributes, self.needed(node.inputs[1])
        assert isinstance(how, DepthwiseConv2d)
        turned = np.ascontiguousarray(weights.array.transpose(3, 0, 1, 2))
        groups = weights.array.shape[3] // how.multiplier
        shape = (how.stride, how.dilation, how.padding, groups)
        convolution = Convolution(Constant(weights.name, turned), self.bias(node), *shape)
        return self.engine.convolve(self.first(node), convolution)

    def fully_connected(self, node: Node) -> Value:
        return self.engine.connect(self.first(node), self.needed(node.inputs[1]), self.bias(node))

    def max_pool2d(self, node: Node) -> Value:
        assert isinstance(node.attributes, Pool2d)
        return self.engine.max_pool(self.first(node), node.attributes)

    def average_pool2d(self, node: Node) -> Value:
        assert isinstance(node.attributes, Pool2d)
        if node.attributes.padding != NO_PADDING:
            raise Missing("no translation of padded averages")
        return self.engine.average_pool(self.first(node), node.attributes)

    def resize_bilinear(self, node: Node) -> Value:
        attributes = node.attributes
        assert isinstance(attributes, Resize)
        if not (attributes.align_corners or attributes.half_pixel_centers):
            raise Missing("no translation of resize_bilinear with centres at corners")
        return self.engine.resize(self.first(node), attributes.size, attributes.align_corners)

    def mean(self, node: Node) -> Value:
        attributes = node.attributes
        assert isinstance(attributes, Reduce)
        if attributes != Reduce((1, 2), keep_dims=True):
            raise Missing("no translation of other means than over rows and columns")
        return self.engine.mean(self.first(node))

    def pad(self, node: Node) -> Value:
        how, rank = node.attributes, len(self.graph.types[node.outputs[0]].shape)
        assert isinstance(how, Pad)
        if rank != 4 or how.value != 0.0:
            raise Missing("no translation of this pad")
        around = list(zip(how.before, how.after, strict=True))
        return self.engine.pad(self.first(node), [around[0], around[3], around[1], around[2]])

    def concat(self, node: Node) -> Value:
        how, rank = node.attributes, len(self.graph.types[node.outputs[0]].shape)
        assert isinstance(how, Concat)
        parts = [self.values[str(name)] for name in node.inputs]
        return self.engine.concat(parts, CHANNELS[how.axis] if rank == 4 else how.axis)

    def reshape(self, node: Node) -> Value:
        before, after = (self.graph.types[str(n)] for n in (node.inputs[0], node.outputs[0]))
        return self.engine.reshape(self.first(node), before.shape, after.shape)

    def softmax(self, node: Node) -> Value:
        return self.engine.softmax(self.first(node))

    def step_relu(self, x: Value, others: list[Value]) -> Value:
        return self.engine.clip(x, None)

    def step_relu6(self, x: Value, others: list[Value]) -> Value:
        return self.engine.clip(x, 6.0)

    def step_logistic(self, x: Value, others: list[Value]) -> Value:
        return self.engine.logistic(x)

    def step_add(self, x: Value, others: list[Value]) -> Value:
        if isinstance(others[0], Constant):
            raise Missing("no translation of sums with a constant")
        return self.engine.add(x, others[0])

    def step_prelu(self, x: Value, others: list[Value]) -> Value:
        slope = others[0]
        if not isinstance(slope, Constant) or slope.array.size != slope.array.shape[-1]:
            raise Missing("no translation of slopes that differ from pixel to pixel")
        return self.engine.prelu(x, Constant(slope.name, slope.array.reshape(-1)))
