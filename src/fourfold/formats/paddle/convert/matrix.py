"""Matrix multiplication operators."""

from __future__ import annotations

import math

import numpy as np

from fourfold.formats.paddle.convert.pointwise import add_activation
from fourfold.formats.paddle.operation import Operation, converts
from fourfold.ops.batch_matmul import BatchMatmul
from fourfold.ops.reshape import Reshape
from fourfold.ops.transpose import Transpose
from fourfold.types import Shape


def _turned(op: Operation, value: str, part: str) -> str:
    """Return a value with its last two axes swapped."""
    rank = op.type_of(value).rank
    order = (*range(rank - 2), rank - 1, rank - 2)
    return op.add("transpose", value, attributes=Transpose(order), part=part)


@converts("matmul", "matmul_v2")
def matmul(op: Operation) -> None:
    """fully_connected if the second input is a constant matrix, else batch_matmul."""
    x, y = op.input("X"), op.input("Y")
    older = op.record.type == "matmul"
    first, second = (
        op.flag("transpose_X" if older else "trans_x"),
        op.flag("transpose_Y" if older else "trans_y"),
    )
    ranks = (op.type_of(x).rank, op.type_of(y).rank)
    if min(ranks) < 1:
        raise ValueError("a scalar is not a matrix")
    factor = op.number("alpha", 1.0) if older else 1.0
    if ranks[0] == 1:
        x, first = _matrix(op, x, 0, "row"), False
    if ranks[1] == 1:
        y, second = _matrix(op, y, 1, "column"), False
    if first:
        x = _turned(op, x, "left")
    result = _product(op, x, y, second)
    if factor != 1.0:
        result = op.add("mul", result, op.scalar(factor, result, "factor"), part="scaled")
    shape = op.type_of(result).shape
    dropped = {len(shape) - 2 + i for i in (0, 1) if ranks[i] == 1}
    if dropped:
        squeezed = Reshape(tuple(size for axis, size in enumerate(shape) if axis not in dropped))
        op.give("reshape", result, attributes=squeezed)
    else:
        op.give("identity", result)


def _matrix(op: Operation, value: str, axis: int, part: str) -> str:
    """Return a vector as a matrix with one row or column."""
    (size,) = op.type_of(value).shape
    shape = Reshape((1, size) if axis == 0 else (size, 1))
    return op.add("reshape", value, attributes=shape, part=part)


def _product(op: Operation, x: str, y: str, turned: bool) -> str:
    array = op.known(y)
    if array is not None and array.ndim == 2:
        weights = array if turned else array.T
        name = op.add_constant(np.ascontiguousarray(weights), "weights")
        return op.add("fully_connected", x, name, None, part="product")
    return op.add("batch_matmul", x, y, attributes=BatchMatmul(turned), part="product")


@converts("bmm")
def bmm(op: Operation) -> None:
    """batch_matmul."""
    op.give("batch_matmul", op.input("X"), op.input("Y"), attributes=BatchMatmul())


@converts("mul")
def mul(op: Operation) -> None:
    """a product of values reshaped to matrices."""
    x, y = op.input("X"), op.input("Y")
    rows, inner = op.integer("x_num_col_dims", 1), op.integer("y_num_col_dims", 1)
    left, right = op.type_of(x).shape, op.type_of(y).shape
    flat = op.add("reshape", x, attributes=_flat(left, rows), part="left")
    other = op.add("reshape", y, attributes=_flat(right, inner), part="right")
    result = _product(op, flat, other, False)
    op.give("reshape", result, attributes=Reshape((*left[:rows], *right[inner:])))


def _flat(shape: Shape, count: int) -> Reshape:
    if not 0 < count < len(shape):
        raise ValueError(f"{list(shape)} cannot be split into a matrix after {count} axes")
    return Reshape((math.prod(shape[:count]), math.prod(shape[count:])))


@converts("fc")
def fully_connected(op: Operation) -> None:
    """fully_connected, with its activation."""
    x, weights = op.input("Input"), op.input("W")
    rows = op.integer("in_num_col_dims", 1)
    shape, kernel = op.type_of(x).shape, op.type_of(weights)
    if kernel.rank != 2 or not 0 < rows < max(len(shape), 1):
        raise ValueError(f"{kernel} cannot read {op.type_of(x)}")
    matrix = Reshape((*shape[:rows], math.prod(shape[rows:])))
    flat = op.add("reshape", x, attributes=matrix, part="rows")
    turned = _turned(op, weights, "weights")
    bias = op.optional("Bias")
    if bias is not None:
        one = Reshape((op.type_of(bias).elements,))
        bias = op.add("reshape", bias, attributes=one, part="bias")
    y = op.add("fully_connected", flat, turned, bias, part="product")
    name = op.text("activation_type")
    op.give("identity", add_activation(op, y, name) if name else y)
