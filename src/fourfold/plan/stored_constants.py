"""Constants as a file stores them: few bytes per weight, expanded when the file is opened.

A plan's constants are a block of bytes, ready for upload. In a prepared file, larger constants of
the block are stored apart as `weights`, in the smallest form that gives the same bits: fp16 instead
of fp32, or bytes with a scale. They are in the model's order, so that plans for different devices
share them. This module expands them; `encode_constants` finds the forms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from fourfold.plan.layout import ArrayLayout, Piece
from fourfold.types import DType

MAX_AXES, MAX_DIMENSIONS = 4, 8
TYPES = {one.value: one for one in DType if one.has_numpy}
WIDER = {DType.F16: DType.F32}  # conversions without a grid
ReadWeights = Callable[[int], np.ndarray]


class Grid(NamedTuple):
    """Bytes that stand for (byte - zero) * scale, rounded to fp32 and then to the piece's type.

    `scale` is one number or, with an `axis`, the number of the weights that hold an fp32 scale for
    each index along that axis; None for integers, which stand for byte - zero.
    """

    zero: int
    scale: float | int | None = None
    axis: int | None = None


class StoredPiece(NamedTuple):
    """A constant that is stored apart: its place and layout in the block, the number of its
    weights, and their type. With a grid, the weights are bytes.
    """

    piece: Piece
    weights: int
    stored: DType
    grid: Grid | None = None

    def to_record(self) -> list[Any]:
        (start, dtype, layout), grid = self.piece, self.grid
        factors = [list(sizes) for sizes in layout.factors]
        record = [start, dtype.value, list(layout.shape), factors, list(layout.order)]
        return [*record, self.weights, self.stored.value, *(grid or ())]

    @staticmethod
    def from_record(record: Sequence[Any]) -> StoredPiece:
        start, dtype, shape, factors, order, weights, stored, *grid = record
        layout = ArrayLayout(tuple(shape), tuple(map(tuple, factors)), tuple(order))
        piece = Piece(start, TYPES[dtype], layout)
        return StoredPiece(piece, weights, TYPES[stored], Grid(*grid) if grid else None)


def expand_constants(
    size: int, records: Sequence[Any], remaining: np.ndarray, weights: ReadWeights
) -> np.ndarray:
    """Return a block of constants of `size` bytes. `remaining` are its bytes outside the pieces.

    Raises ValueError and similar errors if the records are malformed.
    """
    pieces = [StoredPiece.from_record(one) for one in records]
    _check_places(size, [one.piece for one in pieces], remaining.nbytes)
    block, cursor, used = np.empty(size, np.uint8), 0, 0
    for stored in pieces:
        start, length = stored.piece.start, stored.piece.bytes
        block[cursor:start] = remaining[used : used + start - cursor]
        used, cursor = used + start - cursor, start + length
        target = block[start:cursor].view(stored.piece.dtype.numpy)
        _expand(stored, weights, target.reshape(stored.piece.layout.dimensions))
    block[cursor:] = remaining[used:]
    return block


def _check_places(size: int, pieces: Sequence[Piece], remaining: int) -> None:
    """Raise ValueError unless the pieces are in order, inside the block, and leave `remaining`."""
    cursor = 0
    for piece in pieces:
        _check_layout(piece.layout)
        if type(piece.start) is not int or piece.start < cursor or piece.start % piece.dtype.size:
            raise ValueError("the pieces of the constants overlap")
        cursor = piece.start + piece.bytes
    if cursor > size or sum(one.bytes for one in pieces) + remaining != size:
        raise ValueError("the pieces of the constants have the wrong size")


def _check_layout(layout: ArrayLayout) -> None:
    sizes = [*layout.shape, *(size for factors in layout.factors for size in factors)]
    if any(type(size) is not int or not 1 <= size < 2**40 for size in sizes):
        raise ValueError("a layout has sizes that are not positive")
    if not 1 <= len(layout.shape) <= MAX_AXES or len(layout.shape) != len(layout.factors):
        raise ValueError("a layout has the wrong number of axes")
    count = len(sizes) - len(layout.shape)
    if count > MAX_DIMENSIONS or sorted(layout.order) != [*range(count)]:
        raise ValueError("the order of a layout is invalid")
    if any(size > whole for size, whole in zip(layout.shape, layout.padded, strict=True)):
        raise ValueError("a layout is smaller than its array")


def _expand(stored: StoredPiece, weights: ReadWeights, target: np.ndarray) -> None:
    """Write a piece into its place in the block, which has the dimensions of its layout."""
    layout, grid = stored.piece.layout, stored.grid
    source = _array(weights, stored.weights, stored.stored, layout.shape)
    if grid is None:
        if stored.piece.dtype not in (stored.stored, WIDER.get(stored.stored)):
            raise ValueError("weights have another type than their piece")
        arranged = layout.arrange(source)
        if stored.stored is stored.piece.dtype:
            target[...] = arranged
        else:
            _widen(np.ascontiguousarray(arranged), target)
        return
    if type(grid.zero) is not int or not 0 <= grid.zero <= 255 or stored.stored is not DType.U8:
        raise ValueError("the grid of weights is invalid")
    # Bytes are arranged before they are converted: they are the smallest form.
    steps = np.ascontiguousarray(layout.arrange(source, grid.zero))
    if grid.scale is None:
        np.subtract(steps, grid.zero, out=target, casting="unsafe")
        return
    scale = _scale(grid, layout, weights)
    reals = np.multiply(
        np.subtract(steps, np.int16(grid.zero), dtype=np.int16),
        scale,
        out=target if target.dtype == np.float32 else None,
        dtype=np.float32,
    )
    if reals is not target:
        target[...] = reals


def _widen(halves: np.ndarray, target: np.ndarray) -> None:
    """Convert finite fp16 to fp32. Moving bits is several times faster than NumPy's conversion,
    which remains for zeros and subnormal numbers.
    """
    bits, result = halves.view(np.int16), target.view(np.int32)
    np.left_shift(bits, 13, out=result, dtype=np.int32)
    np.bitwise_and(result, np.int32(~0x70000000), out=result)  # copies of the sign
    np.add(result, np.int32(112 << 23), out=result)  # the exponents have different biases
    small = (bits & np.int16(0x7C00)) == 0
    if small.any():
        target[small] = halves[small]


def _scale(grid: Grid, layout: ArrayLayout, weights: ReadWeights) -> np.ndarray:
    if grid.axis is None:
        return np.float32(grid.scale)  # type: ignore[return-value]
    if type(grid.axis) is not int or not 0 <= grid.axis < len(layout.shape):
        raise ValueError("the axis of a grid is invalid")
    along = layout.along(grid.axis)
    return along.arrange(_array(weights, grid.scale, DType.F32, along.shape))


def _array(weights: ReadWeights, number: Any, dtype: DType, shape: Sequence[int]) -> np.ndarray:
    data = weights(number)
    if data.nbytes != prod(shape) * dtype.size:
        raise ValueError("weights have the wrong size")
    return data.view(dtype.numpy).reshape(shape)
