"""Initializer: a constant of a file, in any element type that ONNX has."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fourfold.formats.onnx.schema import ELEMENTS, Element, TensorField
from fourfold.formats.protobuf_writer import MessageWriter
from fourfold.types import DType, Quantization, Shape, to_integers

LOWEST_NIBBLE, HIGHEST_NIBBLE = -8, 7


@dataclass(frozen=True, eq=False)
class Initializer:
    """Numbers, their element type and shape; four bits each lie two in a byte."""

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
    """The integers that stand for real numbers; four bits as bytes."""
    if dtype is not DType.I4:
        return to_integers(array, quantization, dtype)
    return to_integers(array, quantization, DType.I8).clip(LOWEST_NIBBLE, HIGHEST_NIBBLE)


def stored_initializer(numbers: np.ndarray, dtype: DType) -> Initializer:
    if dtype is not DType.I4:
        return Initializer.of(numbers)
    flat = np.append(numbers.reshape(-1), np.zeros(numbers.size % 2, np.int8)).view(np.uint8)
    pairs = (flat[0::2] & 15) | (flat[1::2] & 15) << 4
    return Initializer(Element.INT4, numbers.shape, pairs)
