"""Outputs computed while a model is read, whose size the file specifies."""

from __future__ import annotations

import math

import numpy as np

from fourfold.formats.budget import check_shape
from fourfold.formats.operator_nodes import OperatorNodes
from fourfold.types import DType, Shape, TensorType


def give_range(
    nodes: OperatorNodes, start: np.ndarray, limit: np.ndarray, step: np.ndarray
) -> None:
    """Write the numbers from `start` up to, but not including, `limit`, in steps of `step`."""
    if not start.size == limit.size == step.size == 1 or step.reshape(-1)[0] == 0:
        raise ValueError("start, limit and step must be single numbers, and the step not zero")
    first, last, increment = (array.reshape(-1)[0].item() for array in (start, limit, step))
    if not all(math.isfinite(number) for number in (first, last, increment)):
        raise ValueError(f"a range from {first} to {last} by {increment} has no end")
    count = max(math.ceil((last - first) / increment), 0)
    type = TensorType(DType.of(start), (count,))
    nodes.reserve(type)
    nodes.give_constant((first + np.arange(count) * increment).astype(type.dtype.numpy))


def give_full(nodes: OperatorNodes, shape: Shape, value: np.ndarray) -> None:
    """Write a tensor filled with one number."""
    if value.size != 1:
        raise ValueError(f"cannot fill {list(shape)} with {value.size} values")
    check_shape(shape)
    nodes.reserve(TensorType(DType.of(value), shape))
    nodes.give_constant(np.full(shape, value.reshape(-1)[0], value.dtype))
