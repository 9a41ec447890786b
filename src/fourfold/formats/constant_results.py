"""Results that are known while a model is read, of a size that the file asks for."""

from __future__ import annotations

import math

import numpy as np

from fourfold.formats.budget import check_shape
from fourfold.formats.operator_nodes import OperatorNodes
from fourfold.types import DType, Shape, TensorType


def give_range(
    nodes: OperatorNodes, start: np.ndarray, limit: np.ndarray, step: np.ndarray
) -> None:
    """Numbers from `start` on, each by `step` further, and none that reaches `limit`."""
    if not start.size == limit.size == step.size == 1 or step.reshape(-1)[0] == 0:
        raise ValueError("start, limit and step must be single numbers, and the step not zero")
    first, last, by = (array.reshape(-1)[0].item() for array in (start, limit, step))
    if not all(math.isfinite(number) for number in (first, last, by)):
        raise ValueError(f"a range from {first} to {last} by {by} has no end")
    count = max(math.ceil((last - first) / by), 0)
    type = TensorType(DType.of(start), (count,))
    nodes.reserve(type)
    nodes.give_constant((first + np.arange(count) * by).astype(type.dtype.numpy))


def give_full(nodes: OperatorNodes, shape: Shape, value: np.ndarray) -> None:
    """One number everywhere."""
    if value.size != 1:
        raise ValueError(f"cannot fill {list(shape)} with {value.size} values")
    check_shape(shape)
    nodes.reserve(TensorType(DType.of(value), shape))
    nodes.give_constant(np.full(shape, value.reshape(-1)[0], value.dtype))
