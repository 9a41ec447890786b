"""Expansions of fused nodes: tails, formulas, chains, separable convolutions."""

from __future__ import annotations

from dataclasses import replace
from math import inf

from fourfold.formats.tflite.write_graph.expand import Expansion, expands
from fourfold.ops.conv2d import Conv2d
from fourfold.ops.depthwise_conv2d import DepthwiseConv2d
from fourfold.ops.formula import Formula
from fourfold.ops.kernels.joined import Joined, part_types
from fourfold.ops.pad import Pad
from fourfold.ops.separable_conv2d import SeparableConv2d

_CLAMPS = {(0.0, inf): "relu", (0.0, 6.0): "relu6", (-1.0, 1.0): "relu_n1_to_1"}


@expands("tail")
def tail(to: Expansion) -> bool:
    """the node, then the ops of its tail."""
    node = to.node
    running = to.add(node.op, *node.inputs, attributes=node.attributes)
    for number, step in enumerate(node.tail):
        inputs = [running if name is None else name for name in step.inputs]
        if number == len(node.tail) - 1:
            return to.give(step.op, *inputs, attributes=step.attributes)
        running = to.add(step.op, *inputs, attributes=step.attributes)
    return False


@expands("formula")
def formula(to: Expansion) -> bool:
    """the terms of the formula."""
    terms = to.attributes(Formula).terms
    values = [to.input(index) for index in range(len(to.node.inputs))]
    for term in terms[:-1]:
        operands = [values[number] for number in term.operands]
        values.append(to.add(term.op, *operands, attributes=term.attributes))
    operands = [values[number] for number in terms[-1].operands]
    return to.give(terms[-1].op, *operands, attributes=terms[-1].attributes)


@expands("joined")
def joined(to: Expansion) -> bool:
    """the parts of the chain."""
    attributes = to.attributes(Joined)
    types = part_types(attributes, [to.type(name) for name in to.node.inputs if name])
    names = {str(number): name for number, name in enumerate(to.node.inputs) if name is not None}
    for part in attributes.parts:
        (result,) = part.outputs
        last = part is attributes.parts[-1]
        output = to.node.outputs[0]
        names[result] = output if last else to.names.fresh(f"{output}/{part.op}")
        to.types[names[result]] = types[result]
        to.nodes.append(replace(part.renamed(names), name=to.node.name))
    return True


@expands("separable_conv2d")
def separable_conv2d(to: Expansion) -> bool:
    """a depthwise convolution, a clamp, and a 1x1 convolution."""
    a = to.attributes(SeparableConv2d)
    first = DepthwiseConv2d(a.stride, a.dilation, a.padding)
    middle = to.add("depthwise_conv2d", to.input(0), to.input(1), to.optional(3), attributes=first)
    if (a.low, a.high) in _CLAMPS:
        middle = to.add(_CLAMPS[a.low, a.high], middle)
    else:
        if a.low > -inf:
            middle = to.add("maximum", middle, to.number(a.low, middle))
        if a.high < inf:
            middle = to.add("minimum", middle, to.number(a.high, middle))
    return to.give("conv2d", middle, to.input(2), to.optional(4), attributes=Conv2d())


@expands("add_channels")
def add_channels(to: Expansion) -> bool:
    """a pad of the missing channels, then add."""
    a, b = to.type(to.input(0)), to.type(to.input(1))
    zeros, missing = (0,) * (a.rank - 1), a.channels - b.channels
    wide = to.add("pad", to.input(1), attributes=Pad((*zeros, 0), (*zeros, missing)))
    return to.give("add", to.input(0), wide)
