"""Initializer: a constant of a file, in any element type of ONNX."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fourfold.formats.onnx.schema import ELEMENTS, Element, TensorField
from fourfold.formats.protobuf import MessageWriter
from fourfold.types import DType, Quantization, Shape, to_integers

MIN_INT4, MAX_INT4 = -8, 7


@dataclass(frozen=True, eq=False)
class Initializer:
    """A constant: its data, element type and shape; 4-bit numbers are packed two per byte."""

    element: int
    shape: Shape
    numbers: np.ndarray

    @staticmethod
    def of(array: np.ndarray) -> Initializer:
        return Initializer(ELEMENTS[DType.of(array)], array.shape, array)

    def message(self, name: str) -> MessageWriter:
        little = np.ascontiguousarray(self.numbers, self.numbers.dtype.newbyteorder("<"))
        message = MessageWriter().integers(TensorField.SHAPE, self.shape)
        message.integer(TensorField.ELEMENT, self.element).text(TensorField.NAME, name)
        return message.block(TensorField.RAW, little.reshape(-1).view(np.uint8).data)


def element_of(dtype: DType) -> int:
    return Element.INT4 if dtype is DType.I4 else ELEMENTS[dtype]


def stored_numbers(array: np.ndarray, dtype: DType, quantization: Quantization) -> np.ndarray:
    """Quantize real numbers; 4-bit integers are returned as bytes."""
    if dtype is not DType.I4:
        return to_integers(array, quantization, dtype)
    return to_integers(array, quantization, DType.I8).clip(MIN_INT4, MAX_INT4)


def stored_initializer(numbers: np.ndarray, dtype: DType) -> Initializer:
    if dtype is not DType.I4:
        return Initializer.of(numbers)
    flat = np.append(numbers.reshape(-1), np.zeros(numbers.size % 2, np.int8)).view(np.uint8)
    pairs = (flat[0::2] & 15) | (flat[1::2] & 15) << 4
    return Initializer(Element.INT4, numbers.shape, pairs)
