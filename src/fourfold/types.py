"""Tensor types: element type, shape and quantization."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import NamedTuple

import numpy as np

Shape = tuple[int, ...]
OPEN = -1  # a size that a model leaves open
EXAMPLE_SIZE = 224  # for an open size in examples and where a command needs a number
MAX_FLOAT16 = 65504.0


class DType(Enum):
    """Element types that model files can hold; the value is the name in text forms."""

    F16 = "f16"
    F32 = "f32"
    F64 = "f64"
    I8 = "i8"
    I16 = "i16"
    I32 = "i32"
    I64 = "i64"
    U8 = "u8"
    U16 = "u16"
    U32 = "u32"
    U64 = "u64"
    BOOL = "bool"
    C64 = "c64"
    C128 = "c128"
    I4 = "i4"
    STRING = "string"
    RESOURCE = "resource"
    VARIANT = "variant"

    @property
    def numpy(self) -> np.dtype:
        """Return the NumPy type of one element.

        Raises KeyError for types that have none.
        """
        return _NUMPY[self]

    @property
    def has_numpy(self) -> bool:
        return self in _NUMPY

    @property
    def array_dtype(self) -> np.dtype:
        """Return the NumPy type of arrays; `object` for strings, whose arrays hold str or bytes."""
        return np.dtype(object) if self is DType.STRING else self.numpy

    @property
    def size(self) -> int:
        """Return the size of one element in bytes."""
        return self.numpy.itemsize

    @property
    def is_float(self) -> bool:
        return self in (DType.F16, DType.F32, DType.F64)

    @property
    def is_integer(self) -> bool:
        return self.value[0] in "iu"

    @staticmethod
    def of(array: np.ndarray) -> DType:
        return _FROM_NUMPY[array.dtype]


_NUMPY: dict[DType, np.dtype] = {
    DType.F16: np.dtype(np.float16),
    DType.F32: np.dtype(np.float32),
    DType.F64: np.dtype(np.float64),
    DType.I8: np.dtype(np.int8),
    DType.I16: np.dtype(np.int16),
    DType.I32: np.dtype(np.int32),
    DType.I64: np.dtype(np.int64),
    DType.U8: np.dtype(np.uint8),
    DType.U16: np.dtype(np.uint16),
    DType.U32: np.dtype(np.uint32),
    DType.U64: np.dtype(np.uint64),
    DType.BOOL: np.dtype(np.bool_),
    DType.C64: np.dtype(np.complex64),
    DType.C128: np.dtype(np.complex128),
}
_FROM_NUMPY = {dtype: name for name, dtype in _NUMPY.items()}
_TEXT = re.compile(r"(\w+)\[([\d,]*)\]")


@dataclass(frozen=True)
class Quantization:
    """real = (stored - zero_point) * scale, for all elements or per index along `axis`."""

    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    axis: int | None = None

    def __str__(self) -> str:
        if self.axis is None:
            return f"q({self.scale[0]:g},{self.zero_point[0]})"
        return f"q(axis {self.axis}, {len(self.scale)} scales)"


class OpenInput(NamedTuple):
    """An input as a model declares it; -1 in `sizes` is a size that the model leaves open. The
    model's batch is the size of `batch_axes`, if that is open.
    """

    name: str
    dtype: DType
    sizes: Shape
    batch_axes: tuple[int, ...] = (0,)

    @property
    def example_shape(self) -> Shape:
        """A possible shape: a batch of 1, and an example for every other open size."""
        examples = [1 if n in self.batch_axes else EXAMPLE_SIZE for n in range(len(self.sizes))]
        pairs = zip(self.sizes, examples, strict=True)
        return tuple(example if size == OPEN else size for size, example in pairs)


@dataclass(frozen=True)
class TensorType:
    """Element type and shape. Text form: f32[1,224,224,3]."""

    dtype: DType
    shape: Shape

    @cached_property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def channels(self) -> int:
        """The size of the last axis; a scalar has one channel."""
        return self.shape[-1] if self.shape else 1

    @property
    def pixels(self) -> int:
        """Return the product of all axes except the last."""
        return math.prod(self.shape[:-1])

    @property
    def slices(self) -> int:
        """Return the number of groups of four channels that hold one pixel."""
        return -(-self.channels // 4)

    @cached_property
    def bytes(self) -> int:
        return self.elements * self.dtype.size

    def with_shape(self, *shape: int) -> TensorType:
        return TensorType(self.dtype, tuple(shape))

    def with_dtype(self, dtype: DType) -> TensorType:
        return TensorType(dtype, self.shape)

    @staticmethod
    def parse(text: str) -> TensorType:
        """Parse the text form of a type: 'f32[2,3]'."""
        match = _TEXT.fullmatch(text.replace(" ", ""))
        if match is None:
            raise ValueError(f"{text!r} is not a tensor type such as 'f32[2,3]'")
        sizes = tuple(int(size) for size in match[2].split(",") if size)
        return TensorType(DType(match[1]), sizes)

    @staticmethod
    def of(array: np.ndarray) -> TensorType:
        return TensorType(DType.of(array), tuple(array.shape))

    def __str__(self) -> str:
        return f"{self.dtype.value}[{','.join(map(str, self.shape))}]"


def blank_array(type_: TensorType) -> np.ndarray:
    """Return an array of zeros, or of empty strings."""
    if type_.dtype is DType.STRING:
        return np.full(type_.shape, b"", object)
    return np.zeros(type_.shape, type_.dtype.numpy)


@contextmanager
def silent_arithmetic() -> Iterator[None]:
    """Silence NumPy's floating-point warnings; values of a model may overflow or be infinite."""
    with np.errstate(all="ignore"):
        yield


def dequantize(array: np.ndarray, quantization: Quantization | None) -> np.ndarray:
    """Return the real values as float32; floats of any width are only converted."""
    if array.dtype.kind == "f" or quantization is None:
        return array.astype(np.float32)
    shape = [1] * array.ndim
    if quantization.axis is not None:
        shape[quantization.axis] = -1
    scale = np.array(quantization.scale, np.float32).reshape(shape)
    points = np.array(quantization.zero_point, np.int64).clip(-(2**31), 2**31).reshape(shape)
    exact = np.float64 if array.dtype.itemsize > 2 else np.float32
    real = (array.astype(exact) - points.astype(exact)) * scale
    return np.asarray(real, np.float32).reshape(array.shape)


def to_integers(array: np.ndarray, quantization: Quantization, dtype: DType) -> np.ndarray:
    """Quantize real numbers to the nearest integers."""
    shape = [1] * array.ndim
    if quantization.axis is not None:
        shape[quantization.axis] = -1
    scale = np.array(quantization.scale, np.float32).reshape(shape)
    points = np.array(quantization.zero_point, np.int64).reshape(shape)
    limits = np.iinfo(dtype.numpy)
    steps = np.rint(array / scale) + points
    return np.asarray(steps.clip(limits.min, limits.max).astype(dtype.numpy).reshape(array.shape))
