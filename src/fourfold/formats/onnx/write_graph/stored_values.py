"""Converts between float values and their stored form: quantized integers or float16."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fourfold.formats.onnx.write_graph.operator_list import OperatorList
from fourfold.formats.onnx.write_graph.tensor import (
    element_of,
    stored_initializer,
    stored_numbers,
)
from fourfold.formats.refusal import Unconvertible
from fourfold.formats.writable import StoredAs
from fourfold.op.axis_orders import Order, full_rank
from fourfold.types import DType, Quantization

GRIDS = frozenset({DType.I8, DType.U8, DType.I16, DType.U16})
_WITHOUT_POINT = frozenset({DType.I32, DType.I4})  # types whose zero point is always zero
_WIDENED = GRIDS | _WITHOUT_POINT  # integer types that can be dequantized


@dataclass(frozen=True)
class Grid:
    """Scale and zero point of quantized values, as constants of the file."""

    scale: str
    zero_point: str | None
    axis: int

    @staticmethod
    def of(file: OperatorList, stored: StoredAs, quantization: Quantization) -> Grid:
        scales, points = quantization.scale, quantization.zero_point
        if quantization.axis is None:
            scales, points = scales[0], points[0]  # type: ignore[assignment]
        scale = file.constant(np.asarray(scales, np.float32))
        axis = 1 if quantization.axis is None else quantization.axis
        if stored.dtype in _WITHOUT_POINT:
            return Grid(scale, None, axis)
        return Grid(scale, file.constant(np.asarray(points, stored.dtype.numpy)), axis)


def is_widened(stored: StoredAs) -> bool:
    """Return True if ONNX can store a constant this way; int64 constants stay floats."""
    return stored.quantization is None or stored.dtype in _WIDENED


def read_stored(file: OperatorList, tensor: str, stored: StoredAs) -> str:
    """Return the real numbers of a quantized or float16 tensor."""
    if stored.quantization is None:
        return file.add("Cast", tensor, to=element_of(DType.F32))
    grid = Grid.of(file, stored, stored.quantization)
    return file.add("DequantizeLinear", tensor, grid.scale, grid.zero_point, axis=grid.axis)


def store(file: OperatorList, tensor: str, stored: StoredAs) -> str:
    """Quantize real numbers, or cast them to float16."""
    if stored.quantization is None:
        return file.add("Cast", tensor, to=element_of(stored.dtype))
    if stored.dtype not in GRIDS:
        raise Unconvertible(f"ONNX cannot quantize values to {stored.dtype.value}")
    grid = Grid.of(file, stored, stored.quantization)
    return file.add("QuantizeLinear", tensor, grid.scale, grid.zero_point, axis=grid.axis)


def stored_constant(
    file: OperatorList, name: str, array: np.ndarray, stored: StoredAs, order: Order
) -> str:
    """Add a quantized or float16 constant in an axis order, and the operator that widens it."""
    shape = full_rank(array.shape, len(order))
    grid = stored.quantization
    if grid is None:
        numbers = array.astype(stored.dtype.numpy)
    else:
        numbers = stored_numbers(array, stored.dtype, grid)
        if grid.axis is not None:
            place = grid.axis + len(order) - array.ndim
            grid = replace(grid, axis=order.index(place))
    turned = np.array(numbers.reshape(shape).transpose(order), order="C")
    initializer = file.fresh(f"{name}/{stored.dtype.value}")
    file.initializers[initializer] = stored_initializer(turned, stored.dtype)
    widened = read_stored(file, initializer, replace(stored, quantization=grid))
    file.call(widened, name)
    return widened
