"""Quantised values whose scales are several, or known to a run alone: by plain arithmetic."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fourfold.formats.axes import axis_of
from fourfold.formats.onnx.operation import Operation
from fourfold.formats.onnx.rule import converts
from fourfold.formats.onnx.schema import NIBBLES, graph_dtype
from fourfold.op.rules import Reduce
from fourfold.ops.cast import Cast
from fourfold.ops.dequantize import Dequantize
from fourfold.ops.gather import Gather
from fourfold.ops.quantize import Quantize
from fourfold.types import DType


@dataclass(frozen=True)
class Grid:
    """The values that say which integers stand for which numbers, as a node can take them: real
    scales, and zero points that are real numbers as well; None where all are zero.
    """

    op: Operation
    scale: str
    zero: str | None

    @property
    def numbers(self) -> tuple[float, int] | None:
        """The scale and the zero point where there is one known number of each."""
        scale = self.op.known(self.scale)
        zero = np.zeros(1) if self.zero is None else self.op.known(self.zero)
        if scale is None or zero is None or scale.size != 1 or zero.size != 1:
            return None
        return float(scale.reshape(-1)[0]), int(zero.reshape(-1)[0])

    def real(self, value: str, part: str) -> str:
        """The numbers that integers stand for."""
        op, known = self.op, self.numbers
        if known is not None and op.known(value) is None:
            return op.add("dequantize", value, attributes=Dequantize(*known), part=part)
        steps = op.converted(value, DType.F32, f"{part}_steps")
        if self.zero is not None:
            steps = op.add("sub", steps, self.zero, part=f"{part}_shifted")
        return op.add("mul", steps, self.scale, part=part)

    def steps(self, value: str, to: DType, part: str, nibble: bool = False) -> str:
        """The integers that stand for numbers, the nearest where a number is none of theirs."""
        op, known, limits = self.op, self.numbers, np.iinfo(to.numpy)
        low, high = int(limits.min), int(limits.max)
        if nibble:
            low, high = low // 16, high // 16
        if known is not None:
            scale, zero = known
            attributes = Quantize(scale, low - zero, high - zero, zero, to)
            return op.add("quantize", value, attributes=attributes, part=part)
        steps = op.add("exact_div", value, self.scale, part=f"{part}_ratio")
        steps = op.add("round", steps, part=f"{part}_whole")
        if self.zero is not None:
            steps = op.add("add", steps, self.zero, part=f"{part}_shifted")
        for name, limit in (("maximum", low), ("minimum", high)):
            number = op.add_constant(float(limit), f"{part}_limit")
            steps = op.add(name, steps, number, part=f"{part}_{name}")
        return op.add("cast", steps, attributes=Cast(to), part=part)


def grid_of(op: Operation, index: int, rank: int, axis: int, part: str) -> Grid:
    """The grid of a tensor of a rank: its scale is an input, its zero point the one behind it."""
    zero = op.optional(index + 1)
    points = op.known(zero)
    if zero is not None and (points is None or points.any()):
        zero = op.converted(zero, DType.F32, f"{part}_zero")
    else:
        zero = None
    scale = op.converted(op.input(index), DType.F32, f"{part}_scale")
    zero = None if zero is None else _placed(op, zero, rank, axis, part)
    return Grid(op, _placed(op, scale, rank, axis, part), zero)


def _placed(op: Operation, value: str, rank: int, axis: int, part: str) -> str:
    """One number for all, or a line of them along an axis."""
    if op.type_of(value).rank > 1:
        return value
    count = op.type_of(value).elements
    shape = () if count == 1 else (count, *(1,) * (rank - 1 - axis))
    return op.reshaped(value, shape, f"{part}_line")


def is_plain(op: Operation) -> bool:
    """Whether one scale is known, and counts bytes or more."""
    scale, zero = op.known(op.input(1)), op.optional(2)
    if scale is None or scale.size != 1 or (zero is not None and op.known(zero) is None):
        return False
    narrow = zero in op.nibbles or op.attribute("output_dtype", 0) in NIBBLES
    return not narrow and not op.attribute("block_size", 0)


def _axis(op: Operation) -> int:
    rank = op.input_type(0).rank
    return axis_of(op.attribute("axis", 1), rank) if rank > 1 else 0


def _blocked(op: Operation, grid: Grid, axis: int) -> Grid:
    """Scales of blocks, repeated for each of their elements."""
    size, count = op.attribute("block_size", 0), op.input_type(0).shape
    if not size:
        return grid
    places = op.add_constant(np.arange(count[axis], dtype=np.int32) // size, "blocks")

    def spread(value: str) -> str:
        return op.add("gather", value, places, attributes=Gather(axis), part="spread")

    return Grid(op, spread(grid.scale), None if grid.zero is None else spread(grid.zero))


def dequantize_by_arithmetic(op: Operation) -> None:
    """DequantizeLinear as cast, sub and mul."""
    axis = _axis(op)
    grid = _blocked(op, grid_of(op, 1, op.input_type(0).rank, axis, "grid"), axis)
    op.give_value(grid.real(op.input(0), "real"))


def quantize_by_arithmetic(op: Operation) -> None:
    """QuantizeLinear as exact_div, round and cast."""
    axis, zero = _axis(op), op.optional(2)
    asked = op.attribute("output_dtype", 0)
    to = graph_dtype(asked) if asked else DType.U8
    to = to if zero is None else op.type_of(zero).dtype
    grid = _blocked(op, grid_of(op, 1, op.input_type(0).rank, axis, "grid"), axis)
    real = op.converted(op.input(0), DType.F32, "real")
    op.give_value(grid.steps(real, to, "steps", asked in NIBBLES or zero in op.nibbles))


@converts("DynamicQuantizeLinear")
def dynamic_quantize_linear(op: Operation) -> None:
    """the range of a run's values, and a grid of 256 steps over it."""
    x, zero = op.input(0), op.add_constant(0.0, "nothing")
    over = Reduce(tuple(range(op.input_type(0).rank)), keep_dims=False)
    most, least = (
        op.add(name, op.add(limit, x, attributes=over, part=limit), zero, part=name)
        for limit, name in (("reduce_max", "maximum"), ("reduce_min", "minimum"))
    )
    range_ = op.add("sub", most, least, part="range")
    scale = op.add("exact_div", range_, op.add_constant(255.0, "steps"), part="scale")
    ratio = op.add("exact_div", op.add("negate", least, part="below"), scale, part="ratio")
    point = op.add("round", ratio, part="point")
    grid = Grid(op, scale, point)
    op.give_value(grid.steps(x, DType.U8, "steps_of"))
    op.give_value(scale, 1)
    op.give("cast", point, attributes=Cast(DType.U8), output=2)
