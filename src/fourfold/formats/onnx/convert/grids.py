"""Quantized values with several scales, or scales computed at run time, as plain arithmetic."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fourfold.formats.axes import axis_of
from fourfold.formats.onnx.operation import Operation, converts
from fourfold.formats.onnx.schema import NIBBLES, graph_dtype
from fourfold.ops.base.rules import Reduce
from fourfold.ops.cast import Cast
from fourfold.ops.dequantize import Dequantize
from fourfold.ops.gather import Gather
from fourfold.ops.quantize import Quantize
from fourfold.types import DType


@dataclass(frozen=True)
class Grid:
    """Scale and zero point of quantized values, as float values in the graph.

    `zero` is None if all zero points are zero.
    """

    op: Operation
    scale: str
    zero: str | None

    @property
    def numbers(self) -> tuple[float, int] | None:
        """Return scale and zero point if both are single constants, else None."""
        scale = self.op.known(self.scale)
        zero = np.zeros(1) if self.zero is None else self.op.known(self.zero)
        if scale is None or zero is None or scale.size != 1 or zero.size != 1:
            return None
        return float(scale.reshape(-1)[0]), int(zero.reshape(-1)[0])

    def real(self, value: str, part: str) -> str:
        """Dequantize integers to real numbers."""
        op, constants = self.op, self.numbers
        if constants is not None and op.known(value) is None:
            return op.add("dequantize", value, attributes=Dequantize(*constants), part=part)
        steps = op.converted(value, DType.F32, f"{part}_steps")
        if self.zero is not None:
            steps = op.add("sub", steps, self.zero, part=f"{part}_shifted")
        return op.add("mul", steps, self.scale, part=part)

    def steps(self, value: str, to: DType, part: str, nibble: bool = False) -> str:
        """Quantize real numbers to the nearest integers."""
        op, constants, limits = self.op, self.numbers, np.iinfo(to.numpy)
        low, high = int(limits.min), int(limits.max)
        if nibble:
            low, high = low // 16, high // 16
        if constants is not None:
            scale, zero = constants
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
    """Return the grid of a tensor of rank `rank`; the zero point is the input after the scale."""
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
    """Return one number for all, or numbers along an axis, shaped to broadcast."""
    if op.type_of(value).rank > 1:
        return value
    count = op.type_of(value).elements
    shape = () if count == 1 else (count, *(1,) * (rank - 1 - axis))
    return op.reshaped(value, shape, f"{part}_line")


def is_plain(op: Operation) -> bool:
    """Return True for one constant scale without blocks and without 4-bit values."""
    scale, zero = op.known(op.input(1)), op.optional(2)
    if scale is None or scale.size != 1 or (zero is not None and op.known(zero) is None):
        return False
    narrow = zero in op.nibbles or op.attribute("output_dtype", 0) in NIBBLES
    return not narrow and not op.attribute("block_size", 0)


def _axis(op: Operation) -> int:
    rank = op.input_type(0).rank
    return axis_of(op.attribute("axis", 1), rank) if rank > 1 else 0


def _blocked(op: Operation, grid: Grid, axis: int) -> Grid:
    """Repeat the scales of blocks for each element of a block."""
    size, count = op.attribute("block_size", 0), op.input_type(0).shape
    if not size:
        return grid
    blocks = op.add_constant(np.arange(count[axis], dtype=np.int32) // size, "blocks")

    def spread(value: str) -> str:
        return op.add("gather", value, blocks, attributes=Gather(axis), part="spread")

    return Grid(op, spread(grid.scale), None if grid.zero is None else spread(grid.zero))


def dequantize_by_arithmetic(op: Operation) -> None:
    """Convert DequantizeLinear to cast, sub and mul."""
    axis = _axis(op)
    grid = _blocked(op, grid_of(op, 1, op.input_type(0).rank, axis, "grid"), axis)
    op.give_value(grid.real(op.input(0), "real"))


def quantize_by_arithmetic(op: Operation) -> None:
    """Convert QuantizeLinear to exact_div, round and cast."""
    axis, zero = _axis(op), op.optional(2)
    output_dtype = op.attribute("output_dtype", 0)
    to = graph_dtype(output_dtype) if output_dtype else DType.U8
    to = to if zero is None else op.type_of(zero).dtype
    grid = _blocked(op, grid_of(op, 1, op.input_type(0).rank, axis, "grid"), axis)
    real = op.converted(op.input(0), DType.F32, "real")
    op.give_value(grid.steps(real, to, "steps", output_dtype in NIBBLES or zero in op.nibbles))


@converts("DynamicQuantizeLinear")
def dynamic_quantize_linear(op: Operation) -> None:
    """the range of the values at run time, and a grid of 256 steps over it."""
    x, zero = op.input(0), op.add_constant(0.0, "nothing")
    over = Reduce(tuple(range(op.input_type(0).rank)), keep_dims=False)
    largest, smallest = (
        op.add(name, op.add(limit, x, attributes=over, part=limit), zero, part=name)
        for limit, name in (("reduce_max", "maximum"), ("reduce_min", "minimum"))
    )
    range_ = op.add("sub", largest, smallest, part="range")
    scale = op.add("exact_div", range_, op.add_constant(255.0, "steps"), part="scale")
    ratio = op.add("exact_div", op.add("negate", smallest, part="below"), scale, part="ratio")
    point = op.add("round", ratio, part="point")
    grid = Grid(op, scale, point)
    op.give_value(grid.steps(x, DType.U8, "steps_of"))
    op.give_value(scale, 1)
    op.give("cast", point, attributes=Cast(DType.U8), output=2)
