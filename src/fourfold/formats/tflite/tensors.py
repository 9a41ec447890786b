"""Interprets tensor records: names, types, dynamic sizes, quantization and constant arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fourfold.formats.budget import check_shape
from fourfold.formats.inputs import DeclaredInput, open_sizes
from fourfold.formats.names import unique
from fourfold.formats.tflite.records import (
    DimensionRecord,
    QuantizationRecord,
    SparsityRecord,
    SubgraphRecord,
    TensorRecord,
)
from fourfold.types import OPEN, DType, Quantization, Shape, TensorType


@dataclass(frozen=True)
class _Entries:
    """The entries reached so far: one row of coordinates each, in the order of the file."""

    coordinates: np.ndarray

    @property
    def count(self) -> int:
        return len(self.coordinates)

    def extended(self, parents: np.ndarray, added: np.ndarray) -> _Entries:
        return _Entries(np.column_stack([self.coordinates[parents], added]))


def densify(values: np.ndarray, shape: Shape, sparsity: SparsityRecord) -> np.ndarray:
    """Return the dense array."""
    sizes = _block_sizes(shape, sparsity)
    order = sparsity.traversal_order
    if sorted(order) != list(range(len(sizes))) or len(sparsity.dimensions) != len(sizes):
        raise ValueError("its sparse levels do not match its shape")
    entries = _Entries(np.zeros((1, 0), np.int64))
    for level, record in zip(order, sparsity.dimensions, strict=True):
        entries = _step(entries, record, sizes[level], math.prod(shape))
    if entries.count != values.size:
        raise ValueError(f"it has {values.size} values for {entries.count} positions")
    dense = np.zeros(shape, values.dtype)
    dense[_positions(entries.coordinates, order, shape, sparsity, sizes)] = values
    return dense


def _block_sizes(shape: Shape, sparsity: SparsityRecord) -> tuple[int, ...]:
    """Return the size of each level: the axes in blocks, then the axes within a block."""
    rank, order = len(shape), sparsity.traversal_order
    records = dict(zip(order, sparsity.dimensions, strict=False))
    blocks = [records[rank + i].dense_size for i in range(len(sparsity.block_map))]
    axes = list(shape)
    for axis, size in zip(sparsity.block_map, blocks, strict=True):
        if not 0 <= axis < rank or size <= 0 or axes[axis] % size:
            raise ValueError("its blocks do not divide its shape")
        axes[axis] //= size
    return (*axes, *blocks)


def _step(entries: _Entries, record: DimensionRecord, size: int, limit: int) -> _Entries:
    if record.segments is None or record.indices is None:
        if record.dense_size != size or entries.count * size > limit:
            raise ValueError("a dense level does not have the size of its axis")
        parents = np.repeat(np.arange(entries.count), size)
        return entries.extended(parents, np.tile(np.arange(size), entries.count))
    segments, indices = record.segments.astype(np.int64), record.indices.astype(np.int64)
    counts = np.diff(segments)
    fits = segments.size == entries.count + 1 and segments[0] == 0 and segments[-1] == indices.size
    if not fits or (counts < 0).any() or ((indices < 0) | (indices >= size)).any():
        raise ValueError("a sparse level has invalid indices")
    return entries.extended(np.repeat(np.arange(entries.count), counts), indices)


def _positions(
    coordinates: np.ndarray,
    order: tuple[int, ...],
    shape: Shape,
    sparsity: SparsityRecord,
    sizes: tuple[int, ...],
) -> tuple[np.ndarray, ...]:
    """Return the index along each axis: block index times block size, plus the index within it."""
    columns = {level: coordinates[:, position] for position, level in enumerate(order)}
    rank = len(shape)
    result = [columns[axis] for axis in range(rank)]
    for number, axis in enumerate(sparsity.block_map):
        result[axis] = result[axis] * sizes[rank + number] + columns[rank + number]
    return tuple(result)


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


def tensor_names(record: SubgraphRecord) -> tuple[str, ...]:
    """Return the tensors' names, made unique; unnamed ones get their number."""
    return unique(tensor.name or f"tensor_{i}" for i, tensor in enumerate(record.tensors))


def declared(tensor: TensorRecord) -> TensorType:
    """Return the type of a tensor in the file; 4-bit numbers are unpacked, so they are i8."""
    check_shape(tensor.shape)
    dtype = DType.I8 if tensor.dtype is DType.I4 else tensor.dtype
    return TensorType(DType.VARIANT if dtype is None else dtype, tensor.shape)


def declared_types(record: SubgraphRecord, indices: Sequence[int]) -> tuple[TensorType, ...]:
    """Return the types of some tensors in the file; an omitted one counts as a scalar."""
    absent, tensors = TensorType(DType.VARIANT, ()), record.tensors
    return tuple(absent if index == -1 else declared(tensors[index]) for index in indices)


def declared_input(name: str, tensor: TensorRecord) -> DeclaredInput:
    """Return a tensor as an input; TFLite stores a default size for dynamic sizes."""
    return DeclaredInput(name, declared(tensor), sizes_left_open(tensor))


def sizes_left_open(tensor: TensorRecord) -> Shape:
    """Return the shape with -1 for each dynamic size; () if there are none.

    Other sizes of the shape signature are ignored: they equal the shape or are invalid.
    """
    signature = tensor.signature or ()
    if len(signature) != len(tensor.shape):
        return ()
    sizes = zip(signature, tensor.shape, strict=True)
    return open_sizes(tuple(OPEN if declared_size == OPEN else own for declared_size, own in sizes))


def no_arrays(tensor: TensorRecord) -> str:
    kind = f"type {tensor.type_code}" if tensor.dtype is None else tensor.dtype.value
    return f"'{tensor.name}' holds {kind} values, which are not supported"


def has_arrays(tensor: TensorRecord) -> bool:
    """Return True if its values can be arrays; 4-bit numbers are unpacked to bytes."""
    return tensor.dtype is not None and (tensor.dtype.has_numpy or tensor.dtype is DType.I4)
