"""Normalization operators."""

from __future__ import annotations

import numpy as np

from fourfold.formats.axes import axes_of, axis_of
from fourfold.formats.onnx.operation import Operation, converts
from fourfold.formats.rule_table import Unconvertible
from fourfold.ops.base.rules import Reduce
from fourfold.ops.local_response import LocalResponse
from fourfold.types import Shape

_MIN_NORM = 1e-30  # avoids division by zero


@converts("BatchNormalization")
def batch_normalization(op: Operation) -> None:
    """mul and add per channel, folded into preceding convolutions."""
    if any(op.outputs[1:]) or op.attribute("training_mode", 0):
        raise Unconvertible("training mode is not supported")
    if not op.attribute("spatial", 1):
        raise Unconvertible("a separate mean per pixel (spatial=0) is not supported")
    x, epsilon = op.input_type(0), op.real_attribute("epsilon", 1e-5)
    arrays = [op.known(op.input(index)) for index in range(1, 5)]
    shape = (-1, *(1,) * (x.rank - 2)) if x.rank > 1 else (-1,)
    if any(array is None for array in arrays):
        _computed_numbers(op, (x.shape[1], *shape[1:]) if x.rank > 1 else x.shape)
        return
    scale, shift, mean, variance = (np.asarray(array, np.float64) for array in arrays)
    factor = scale / np.sqrt(variance + epsilon)
    offset = shift - mean * factor
    factors, offsets = (
        op.add_constant(array.astype(x.dtype.numpy).reshape(shape), part)
        for array, part in ((factor, "factor"), (offset, "shift"))
    )
    op.give("add", op.add("mul", op.input(0), factors, part="scaled"), offsets)


def _computed_numbers(op: Operation, shape: Shape) -> None:
    """Normalize with statistics computed at run time."""
    scale, shift, mean, variance = (
        op.reshaped(op.input(index), shape, f"numbers{index}") for index in range(1, 5)
    )
    small = op.add_constant(op.real_attribute("epsilon", 1e-5), "epsilon", op.input_type(0).dtype)
    root = op.add("rsqrt", op.add("add", variance, small, part="sum"), part="root")
    middle = op.add("sub", op.input(0), mean, part="middle")
    even = op.add("mul", op.add("mul", middle, root, part="even"), scale, part="scaled")
    op.give("add", even, shift)


def _normalized(op: Operation, value: str, axes: Shape, epsilon: float, part: str = "") -> str:
    """Return (x - mean) / sqrt(variance + epsilon) over axes."""
    return _parts(op, value, axes, epsilon, part)[0]


def _parts(
    op: Operation, value: str, axes: Shape, epsilon: float, part: str = ""
) -> tuple[str, str, str]:
    """Return the normalized value, the mean, and the reciprocal of the standard deviation."""
    over = Reduce(axes, keep_dims=True)
    mean = op.add("mean", value, attributes=over, part=f"{part}mean")
    variance = op.add("variance", value, mean, attributes=over, part=f"{part}variance")
    small = op.add_constant(epsilon, f"{part}epsilon", op.type_of(value).dtype)
    scale = op.add("rsqrt", op.add("add", variance, small, part=f"{part}sum"), part=f"{part}scale")
    middle = op.add("sub", value, mean, part=f"{part}middle")
    return op.add("mul", middle, scale, part=f"{part}normalised"), mean, scale


@converts("LayerNormalization")
def layer_normalization(op: Operation) -> None:
    """mean, variance and pointwise ops over the last axes."""
    x = op.input_type(0)
    axes = tuple(range(axis_of(op.attribute("axis", -1), x.rank), x.rank))
    value, mean, scale = _parts(op, op.input(0), axes, op.real_attribute("epsilon", 1e-5))
    op.give_value(mean, 1)
    op.give_value(scale, 2)
    value = op.add("mul", value, op.input(1), part="scaled")
    if op.optional(2) is None:
        op.give_value(value)
    else:
        op.give("add", value, op.input(2))


@converts("InstanceNormalization")
def instance_normalization(op: Operation) -> None:
    """mean, variance and pointwise ops over each plane."""
    x = op.input_type(0)
    epsilon, axes = op.real_attribute("epsilon", 1e-5), tuple(range(2, x.rank))
    value = _normalized(op, op.input(0), axes, epsilon)
    shape = (x.shape[1], *(1,) * (x.rank - 2))
    value = op.add("mul", value, op.reshaped(op.input(1), shape, "scales"), part="scaled")
    op.give("add", value, op.reshaped(op.input(2), shape, "shifts"))


@converts("MeanVarianceNormalization")
def mean_variance_normalization(op: Operation) -> None:
    """mean, variance and pointwise ops."""
    axes = op.list_attribute("axes") or (0, 2, 3)
    rank = op.input_type(0).rank
    op.give_value(_normalized(op, op.input(0), axes_of(axes, rank), 1e-9))


@converts("LpNormalization")
def lp_normalization(op: Operation) -> None:
    """a norm along an axis, then div."""
    axis, order = op.attribute("axis", -1), op.attribute("p", 2)
    if order not in (1, 2):
        raise Unconvertible(f"its norm of order {order} is not supported")
    x = op.input(0)
    over = Reduce((axis_of(axis, op.type_of(x).rank),), keep_dims=True)
    each = op.add("absolute" if order == 1 else "square", x, part="each")
    norm = op.add("sum", each, attributes=over, part="sum")
    norm = norm if order == 1 else op.add("sqrt", norm, part="norm")
    minimum = op.add_constant(_MIN_NORM, "least", op.type_of(x).dtype)
    op.give("div", x, op.add("maximum", norm, minimum, part="above"))


@converts("LRN")
def local_response(op: Operation) -> None:
    """local_response between transposes."""
    size = op.attribute("size", 1)
    if size % 2 == 0:
        raise Unconvertible("an even number of channels is not supported")
    attributes = LocalResponse(
        size // 2,
        op.real_attribute("bias", 1.0),
        op.real_attribute("alpha", 1e-4) / size,
        op.real_attribute("beta", 0.75),
    )
    rank = op.input_type(0).rank
    if rank < 2:
        raise ValueError("it has no channels")
    turned = op.transposed(op.input(0), (0, *range(2, rank), 1), "last")
    response = op.add("local_response", turned, attributes=attributes, part="response")
    op.give_value(op.transposed(response, (0, rank - 1, *range(1, rank - 1)), "first"))


@converts("RMSNormalization")
def rms_normalization(op: Operation) -> None:
    """the mean of squares over the last axes, and pointwise ops."""
    x = op.input_type(0)
    axes = tuple(range(axis_of(op.attribute("axis", -1), x.rank), x.rank))
    squares = op.add("square", op.input(0), part="squares")
    mean = op.add("mean", squares, attributes=Reduce(axes, keep_dims=True), part="mean")
    small = op.add_constant(op.real_attribute("epsilon", 1e-5), "epsilon", x.dtype)
    factor = op.add("rsqrt", op.add("add", mean, small, part="sum"), part="factor")
    op.give("mul", op.add("mul", op.input(0), factor, part="even"), op.input(1))


@converts("GroupNormalization")
def group_normalization(op: Operation) -> None:
    """mean, variance and pointwise ops over groups of channels."""
    x, groups = op.input_type(0), op.attribute("num_groups", 0)
    if x.rank < 3 or groups < 1 or x.shape[1] % groups:
        raise ValueError(f"{x} does not have {groups} groups of channels")
    each = x.shape[1] // groups
    value = op.reshaped(op.input(0), (x.shape[0], groups, each, *x.shape[2:]), "groups")
    over = Reduce(tuple(range(2, x.rank + 1)), keep_dims=True)
    mean = op.add("mean", value, attributes=over, part="mean")
    variance = op.add("variance", value, mean, attributes=over, part="variance")
    small = op.add_constant(op.real_attribute("epsilon", 1e-5), "epsilon", x.dtype)
    factor = op.add("rsqrt", op.add("add", variance, small, part="sum"), part="factor")
    value = op.add("mul", op.add("sub", value, mean, part="middle"), factor, part="even")
    # Before opset 21 scale and bias have one number per group, since then one per channel.
    ones = (1,) * (x.rank - 2)
    numbers = [
        op.reshaped(op.input(n), _spread(op, n, groups, each, ones), f"n{n}") for n in (1, 2)
    ]
    value = op.add("mul", value, numbers[0], part="scaled")
    value = op.add("add", value, numbers[1], part="shifted")
    op.give_value(op.reshaped(value, x.shape, "channels"))


def _spread(
    op: Operation, index: int, groups: int, each: int, ones: tuple[int, ...]
) -> tuple[int, ...]:
    count = op.input_type(index).elements
    if count not in (groups, groups * each):
        raise ValueError(f"{op.input_type(index)} fits neither groups nor channels")
    return (groups, 1 if count == groups else each, *ones)
