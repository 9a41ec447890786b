"""Group normalization and RMS normalization."""

from __future__ import annotations

from fourfold.formats.axes import axis_of
from fourfold.formats.onnx.operation import Operation
from fourfold.formats.onnx.rule import converts
from fourfold.op.rules import Reduce


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
