"""Layers that scale and shift by parameters, and matrix products."""

from __future__ import annotations

import math

import numpy as np

from fourfold.formats.caffe.operation import Operation, converts
from fourfold.formats.caffe.record import Record
from fourfold.ops.base.rules import Reduce
from fourfold.ops.reshape import Reshape
from fourfold.types import Shape


@converts("InnerProduct")
def inner_product(op: Operation) -> None:
    """fully_connected, after a reshape to rows."""
    op.single()
    settings, x = op.settings("inner_product_param"), op.input_type()
    axis, outputs = op.axis(settings.integer("axis", 1)), settings.integer("num_output")
    columns = math.prod(x.shape[axis:])
    if outputs < 1 or columns < 1:
        raise ValueError(f"it cannot compute {outputs} outputs from {columns} numbers")
    shape = (columns, outputs) if settings.flag("transpose") else (outputs, columns)
    matrix = op.parameter(0, "weights", shape)
    matrix = np.ascontiguousarray(matrix.T) if settings.flag("transpose") else matrix
    bias = None
    if settings.flag("bias_term", True):
        bias = op.add_constant(op.parameter(1, "bias", (outputs,)), "bias")
    rows = op.add(
        "reshape", op.input(), attributes=Reshape((*x.shape[:axis], columns)), part="rows"
    )
    op.give("fully_connected", rows, op.add_constant(matrix, "weights"), bias)


@converts("BatchNorm")
def batch_norm(op: Operation) -> None:
    """mul and add per channel, folded into preceding convolutions."""
    op.single()
    x = op.input_type()
    if x.rank < 2:
        raise ValueError(f"{x} has no channels")
    mean, variance = (op.parameter(i, what, (x.shape[1],)) for i, what in enumerate(_MOMENTS))
    # Mean and variance are stored as sums weighted over time; divide by the total weight.
    weight = float(op.parameter(2, "weight of the mean", (1,))[0])
    share = 1.0 / weight if weight else 0.0
    eps = op.settings("batch_norm_param").number("eps", 1e-5)
    scale = 1.0 / np.sqrt(variance.astype(np.float64) * share + eps)
    shift = -(mean.astype(np.float64) * share) * scale
    if len(op.layer.blobs) == 5:  # forks of Caffe store scale and shift of the next layer here, too
        factor, offset = (op.parameter(i, "scale", (x.shape[1],)) for i in (3, 4))
        scale, shift = scale * factor, shift * factor + offset
    scaled = op.add("mul", op.input(), _channels(op, scale, "scale"), part="scaled")
    op.give("add", scaled, _channels(op, shift, "shift"))


_MOMENTS = ("mean", "variance")


def _channels(op: Operation, numbers: np.ndarray, part: str) -> str:
    return op.along(numbers.astype(np.float32), 1, part)


def _covered(op: Operation, settings: Record) -> tuple[int, Shape]:
    """Return the first axis that a parameter covers, and the sizes of all axes it covers."""
    shape = op.input_type().shape
    axis, count = settings.integer("axis", 1), settings.integer("num_axes", 1)
    axis = op.axis(axis) if shape else 0
    end = len(shape) if count == -1 else axis + count
    if count < -1 or end > len(shape):
        raise ValueError(f"{op.input_type()} does not have {count} axes from axis {axis} on")
    return axis, shape[axis:end]


def _second(op: Operation, settings: Record) -> str:
    """Return the second input with trailing axes of size one, to broadcast to the first."""
    x, y = op.input_type(), op.input_type(1)
    axis = op.axis(settings.integer("axis", 1)) if y.rank else 0
    after = x.rank - axis - y.rank
    if after < 0:
        raise ValueError(f"{y} does not fit from axis {axis} of {x} on")
    wide = Reshape((*y.shape, *[1] * after))
    return op.add("reshape", op.input(1), attributes=wide, part="wide")


@converts("Scale")
def scale(op: Operation) -> None:
    """mul, and add if it has a bias."""
    op.single()
    settings, biased = op.settings("scale_param"), op.settings("scale_param").flag("bias_term")
    if len(op.inputs) > 1:
        factor, axis, shape = _second(op, settings), settings.integer("axis", 1), None
        axis = op.axis(axis)
    else:
        axis, shape = _covered(op, settings)
        factor = op.along(op.parameter(0, "scale", shape), axis, "scale")
    if not biased:
        op.give("mul", op.input(), factor)
        return
    number = 0 if shape is None else 1
    sizes = op.input_type(1).shape if shape is None else shape
    bias = op.along(op.parameter(number, "bias", sizes), axis, "bias")
    op.give("add", op.add("mul", op.input(), factor, part="scaled"), bias)


@converts("Bias")
def bias(op: Operation) -> None:
    """add."""
    op.single()
    settings = op.settings("bias_param")
    if len(op.inputs) > 1:
        op.give("add", op.input(), _second(op, settings))
        return
    axis, shape = _covered(op, settings)
    op.give("add", op.input(), op.along(op.parameter(0, "bias", shape), axis, "bias"))


@converts("Normalize")
def normalize(op: Operation) -> None:
    """each pixel divided by the norm of its channels, or of the whole image, and scaled."""
    settings, x = op.settings("norm_param"), op.input_type()
    if x.rank != 4:
        raise ValueError(f"{x} is not a batch of images")
    axes = (1, 2, 3) if settings.flag("across_spatial", True) else (1,)
    squares = op.add("square", op.input(), part="squares")
    total = op.add("sum", squares, attributes=Reduce(axes, keep_dims=True), part="total")
    little = op.scalar(settings.number("eps", 1e-10), op.input(), "little")
    length = op.add("rsqrt", op.add("add", total, little, part="sum"), part="inverse")
    unit = op.add("mul", op.input(), length, part="unit")
    shared = settings.flag("channel_shared", True)
    factors = op.parameter(0, "scale", () if shared else (x.shape[1],))
    factor = op.add_constant(factors, "scale") if shared else op.along(factors, 1, "scale")
    op.give("mul", unit, factor)
