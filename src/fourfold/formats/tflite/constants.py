"""Reads constants of a TFLite file as arrays, and their quantization."""

from __future__ import annotations

import math

import numpy as np

from fourfold.formats.budget import check_shape
from fourfold.formats.tflite.records import QuantizationRecord, TensorRecord
from fourfold.formats.tflite.sparse import densify
from fourfold.types import DType, Quantization, Shape


def array_of(record: TensorRecord, data: np.ndarray) -> np.ndarray:
    """Return the tensor's elements, as a view of the file unless they are sparse or packed."""
    check_shape(record.shape)
    count = math.prod(record.shape)
    if record.dtype is DType.I4:
        return _unpack_nibbles(data, count).reshape(record.shape)
    if record.dtype is None or not record.dtype.has_numpy:
        raise ValueError("its element type cannot be an array")
    dtype = record.dtype.numpy
    if data.size % dtype.itemsize:
        raise ValueError(
            f"its {data.size} bytes are not a multiple of {record.dtype.value} elements"
        )
    values = data.view(dtype)
    if record.sparsity is not None:
        return densify(values, record.shape, record.sparsity)
    if values.size != count:
        raise ValueError(
            f"its shape {list(record.shape)} needs {count} elements, it has {values.size}"
        )
    return values.reshape(record.shape)


def check_texts(record: TensorRecord, data: np.ndarray) -> None:
    """Check the string table of a tensor, which LiteRT would trust.

    It has the number of strings, then the offset of each, and the end of the last one.
    """
    words = data[: data.size // 4 * 4].view(np.int32)
    count = int(words[0]) if words.size else -1
    if count < 0 or count != math.prod(record.shape) or words.size < count + 2:
        raise ValueError(f"tensor '{record.name}' has an invalid string table")
    offsets = words[1 : count + 2].astype(np.int64)
    if offsets[0] < 4 * (count + 2) or offsets[-1] > data.size or (np.diff(offsets) < 0).any():
        raise ValueError(f"tensor '{record.name}' has strings outside its buffer")


def _unpack_nibbles(data: np.ndarray, count: int) -> np.ndarray:
    """Unpack two signed 4-bit numbers per byte, lower half first."""
    if data.size != -(-count // 2):
        raise ValueError(f"{count} 4-bit numbers do not fit {data.size} bytes")
    signed = data.view(np.int8)
    pairs = np.stack([np.left_shift(signed, 4) >> 4, signed >> 4], axis=-1)
    return pairs.reshape(-1)[:count]


def quantization_of(record: TensorRecord) -> Quantization | None:
    """Return the quantization of a tensor; None if it is not quantized."""
    stored = record.quantization
    if stored is None or not stored.scale:
        return None
    _check_quantization(stored, record.shape)
    count = len(stored.scale)
    points = stored.zero_point or (0,)
    axis = stored.axis if count > 1 else None
    return Quantization(stored.scale, points if len(points) == count else points * count, axis)


def _check_quantization(record: QuantizationRecord, shape: Shape) -> None:
    count, points = len(record.scale), len(record.zero_point)
    if not all(math.isfinite(scale) and scale >= 0 for scale in record.scale):
        raise ValueError("a scale of its quantization is not a finite number")
    if count > 1 and not (0 <= record.axis < len(shape) and shape[record.axis] == count):
        raise ValueError(f"it has {count} scales along axis {record.axis} of {list(shape)}")
    if points not in (0, 1, count):
        raise ValueError(f"it has {count} scales but {points} zero points")
