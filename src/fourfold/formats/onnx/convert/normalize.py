"""Operators that bring values to a mean and a variance."""

from __future__ import annotations

import numpy as np

from fourfold.formats.axes import axes_of, axis_of
from fourfold.formats.onnx.operation import Operation
from fourfold.formats.onnx.rule import converts
from fourfold.formats.refusal import Unconvertible
from fourfold.op.rules import Reduce
from fourfold.ops.local_response import LocalResponse
from fourfold.types import Shape

_LEAST = 1e-30  # what has no length stays zero


@converts("BatchNormalization")
def batch_normalization(op: Operation) -> None:
    """mul and add, one number a channel; convolutions before it take them in."""
    if any(op.outputs[1:]) or op.attribute("training_mode", 0):
        raise Unconvertible("it is asked to learn")
    if not op.attribute("spatial", 1):
        raise Unconvertible("each place has a mean of its own")
    x, epsilon = op.input_type(0), op.real_attribute("epsilon", 1e-5)
    arrays = [op.known(op.input(index)) for index in range(1, 5)]
    shape = (-1, *(1,) * (x.rank - 2)) if x.rank > 1 else (-1,)
    if any(array is None for array in arrays):
        _computed_numbers(op, (x.shape[1], *shape[1:]) if x.rank > 1 else x.shape)
        return
    scale, shift, mean, variance = (np.asarray(array, np.float64) for array in arrays)
    factor = scale / np.sqrt(variance + epsilon)
    rest = shift - mean * factor
    factors, rests = (
        op.add_constant(array.astype(x.dtype.numpy).reshape(shape), part)
        for array, part in ((factor, "factor"), (rest, "shift"))
    )
    op.give("add", op.add("mul", op.input(0), factors, part="scaled"), rests)


def _computed_numbers(op: Operation, shape: Shape) -> None:
    """The same where only a run knows the numbers."""
    scale, shift, mean, variance = (
        op.reshaped(op.input(index), shape, f"numbers{index}") for index in range(1, 5)
    )
    small = op.add_constant(op.real_attribute("epsilon", 1e-5), "epsilon", op.input_type(0).dtype)
    root = op.add("rsqrt", op.add("add", variance, small, part="sum"), part="root")
    middle = op.add("sub", op.input(0), mean, part="middle")
    even = op.add("mul", op.add("mul", middle, root, part="even"), scale, part="scaled")
    op.give("add", even, shift)


def _normalised(op: Operation, value: str, axes: Shape, epsilon: float, part: str = "") -> str:
    """(x - mean) / sqrt(variance + epsilon) over axes."""
    return _parts(op, value, axes, epsilon, part)[0]


def _parts(
    op: Operation, value: str, axes: Shape, epsilon: float, part: str = ""
) -> tuple[str, str, str]:
    """The same, with the mean and what is multiplied by."""
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
    value = _normalised(op, op.input(0), axes, epsilon)
    shape = (x.shape[1], *(1,) * (x.rank - 2))
    value = op.add("mul", value, op.reshaped(op.input(1), shape, "scales"), part="scaled")
    op.give("add", value, op.reshaped(op.input(2), shape, "shifts"))


@converts("MeanVarianceNormalization")
def mean_variance_normalization(op: Operation) -> None:
    """mean, variance and pointwise ops."""
    axes = op.list_attribute("axes") or (0, 2, 3)
    rank = op.input_type(0).rank
    op.give_value(_normalised(op, op.input(0), axes_of(axes, rank), 1e-9))


@converts("LpNormalization")
def lp_normalization(op: Operation) -> None:
    """a norm along an axis, then div."""
    axis, order = op.attribute("axis", -1), op.attribute("p", 2)
    if order not in (1, 2):
        raise Unconvertible(f"its norm of order {order} is not known")
    x = op.input(0)
    over = Reduce((axis_of(axis, op.type_of(x).rank),), keep_dims=True)
    each = op.add("absolute" if order == 1 else "square", x, part="each")
    norm = op.add("sum", each, attributes=over, part="sum")
    norm = norm if order == 1 else op.add("sqrt", norm, part="norm")
    least = op.add_constant(_LEAST, "least", op.type_of(x).dtype)
    op.give("div", x, op.add("maximum", norm, least, part="above"))


@converts("LRN")
def local_response(op: Operation) -> None:
    """local_response between transposes."""
    size = op.attribute("size", 1)
    if size % 2 == 0:
        raise Unconvertible("it looks at an even number of channels")
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
    found = op.add("local_response", turned, attributes=attributes, part="response")
    op.give_value(op.transposed(found, (0, rank - 1, *range(1, rank - 1)), "first"))
