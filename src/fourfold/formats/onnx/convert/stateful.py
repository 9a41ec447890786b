"""Operators with a state passed from step to step: causal convolution and linear attention."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fourfold.formats.onnx.operation import Operation, converts
from fourfold.formats.rule_table import Unconvertible
from fourfold.ops.base.window import NO_PADDING
from fourfold.ops.batch_matmul import BatchMatmul
from fourfold.ops.concat import Concat
from fourfold.ops.conv2d import Conv2d
from fourfold.ops.depthwise_conv2d import DepthwiseConv2d
from fourfold.ops.pad import Pad
from fourfold.ops.slice import Slice
from fourfold.types import Shape

MAX_STEPS = 256  # steps; a longer unrolled graph would be slower than a loop


@converts("CausalConvWithState")
def causal_conv(op: Operation) -> None:
    """depthwise_conv2d over state and input; the last inputs are the next state."""
    (batch, channels, length), taps = op.input_type(0).shape, op.input_type(1).shape[2]
    if op.optional(3) is None:
        pad = Pad((0, 0, taps - 1), (0, 0, 0))
        extended = op.add("pad", op.input(0), attributes=pad, part="padded")
    else:
        extended = op.add("concat", op.input(3), op.input(0), attributes=Concat(2), part="joined")
    row = op.reshaped(
        op.transposed(extended, (0, 2, 1), "row"), (batch, 1, length + taps - 1, channels), "image"
    )
    are_constant = all(
        op.known(op.optional(index)) is not None for index in (1, 2) if op.optional(index)
    )
    if are_constant:
        order, shape, name = (1, 2, 0), (1, 1, taps, channels), "depthwise_conv2d"
        attributes: object = DepthwiseConv2d((1, 1), (1, 1), NO_PADDING, 1)
    else:
        order, shape, name = (0, 2, 1), (channels, 1, taps, 1), "conv2d"
        attributes = Conv2d((1, 1), (1, 1), NO_PADDING, channels)
    filters = op.reshaped(op.transposed(op.input(1), order, "turned"), shape, "filters")
    value = op.add(name, row, filters, op.optional(2), attributes=attributes, part="conv")
    if op.text_attribute("activation", "none") in ("silu", "swish"):
        value = op.add("mul", value, op.add("logistic", value, part="gate"), part="gated")
    value = op.reshaped(value, (batch, length, channels), "line")
    op.give_value(op.transposed(value, (0, 2, 1), "planes"))
    if op.output(1) is not None:
        _give_state(op, extended, taps - 1)


def _give_state(op: Operation, extended: str, count: int) -> None:
    batch, channels, length = op.type_of(extended).shape
    if count == 0:
        dtype = op.type_of(extended).dtype.numpy
        op.give_constant(np.zeros((batch, channels, 0), dtype), 1)
        return
    box = Slice((0, 0, length - count), (batch, channels, count), (1, 1, 1))
    op.give("slice", extended, attributes=box, output=1)


@dataclass(frozen=True)
class _Steps:
    """Linear attention, unrolled step by step, over [batch, heads, rows, columns]."""

    op: Operation
    groups: int
    scale: float

    def heads(self, index: int, count: int) -> str:
        """Return an input as [steps, batch, heads, size]."""
        batch, steps, width = self.op.input_type(index).shape
        if count < 1 or width % count:
            raise ValueError(f"{self.op.input_type(index)} does not have {count} heads")
        split = self.op.reshaped(
            self.op.input(index), (batch, steps, count, width // count), "split"
        )
        return self.op.transposed(split, (1, 0, 2, 3), f"heads{index}")

    def at(self, value: str, step: int, shape: Shape) -> str:
        """Return one step, reshaped."""
        sizes = self.op.type_of(value).shape
        box = Slice((step, 0, 0, 0), (1, *sizes[1:]), (1, 1, 1, 1))
        cut = self.op.add("slice", value, attributes=box, part="step")
        return self.op.reshaped(cut, shape, "now")

    def product(self, a: str, b: str, *, transposed: bool = False) -> str:
        attributes = BatchMatmul(transposed)
        return self.op.add("batch_matmul", a, b, attributes=attributes, part="product")


@converts("LinearAttention")
def linear_attention(op: Operation) -> None:
    """products and pointwise ops for each step; the state is [batch, heads, keys, values]."""
    batch, steps, width = op.input_type(0).shape
    queries, heads = op.attribute("q_num_heads", 0), op.attribute("kv_num_heads", 0)
    rule = op.text_attribute("update_rule", "gated_delta")
    if queries < 1 or heads < 1 or queries % heads:
        raise ValueError(f"{queries} query heads cannot share {heads} key heads")
    if not 0 < steps <= MAX_STEPS:
        raise Unconvertible(f"{steps} steps are too many to unroll")
    keys, values = width // queries, op.input_type(2).channels // heads
    scale = op.real_attribute("scale", 0.0) or 1 / math.sqrt(keys)
    walk = _Steps(op, queries // heads, scale)
    parts = [walk.heads(0, queries), walk.heads(1, heads), walk.heads(2, heads)]
    decay = walk.heads(4, heads) if rule.startswith("gated") else None
    beta = walk.heads(5, min(heads, op.input_type(5).channels)) if rule.endswith("delta") else None
    state = op.optional(3) or op.add_constant(
        np.zeros((batch, heads, keys, values), np.float32), "start"
    )
    rows = []
    for step in range(steps):
        state = _updated(walk, state, step, (parts[1], parts[2], decay, beta))
        query = walk.at(parts[0], step, (batch, heads, walk.groups, keys))
        rows.append(op.reshaped(walk.product(query, state), (batch, 1, queries * values), "row"))
    result = rows[0]
    if len(rows) > 1:
        result = op.add("concat", *rows, attributes=Concat(1), part="rows")
    op.give("mul", result, op.add_constant(scale, "scale"))
    op.give_value(state, 1)


def _updated(
    walk: _Steps, state: str, step: int, inputs: tuple[str, str, str | None, str | None]
) -> str:
    """Return the state after a step: decayed, plus the product of key and value."""
    op, (batch, heads, keys, values) = walk.op, walk.op.type_of(state).shape
    key = walk.at(inputs[0], step, (batch, heads, 1, keys))
    value = walk.at(inputs[1], step, (batch, heads, 1, values))
    if inputs[2] is not None:
        size = op.type_of(inputs[2]).shape[3]
        factor = op.add("exp", walk.at(inputs[2], step, (batch, heads, size, 1)), part="kept")
        state = op.add("mul", state, factor, part="decayed")
    if inputs[3] is not None:
        share = walk.at(inputs[3], step, (batch, op.type_of(inputs[3]).shape[2], 1, 1))
        news = op.add("sub", value, walk.product(key, state), part="news")
        value = op.add("mul", news, share, part="learned")
    column = op.reshaped(key, (batch, heads, keys, 1), "column")
    return op.add("add", state, op.add("mul", column, value, part="outer"), part="state")


@converts("SwiGLU")
def swiglu(op: Operation) -> None:
    """logistic and products."""
    gate, factor = op.input(0), op.real_attribute("alpha", 1.0)
    if factor != 1:
        gate = op.add(
            "mul", gate, op.add_constant(factor, "alpha", op.input_type(0).dtype), part="scaled"
        )
    bent = op.add("mul", op.input(0), op.add("logistic", gate, part="gate"), part="bent")
    op.give("mul", bent, op.input(1))
