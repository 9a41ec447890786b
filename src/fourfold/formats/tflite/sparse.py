"""Expands sparse constants, which TFLite stores level by level without zeros."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fourfold.formats.tflite.records import DimensionRecord, SparsityRecord
from fourfold.types import Shape


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
