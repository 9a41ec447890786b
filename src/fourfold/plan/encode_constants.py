"""Finds the smallest stored form of each constant of a plan that expands to the same bits."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from fourfold.plan.data import Plan
from fourfold.plan.layout import ArrayLayout, Piece
from fourfold.plan.stored_constants import MAX_AXES, MAX_DIMENSIONS, expand_constants
from fourfold.types import DType

MIN_PIECE_BYTES = 512  # a section of its own costs about 100 bytes
MAX_STEPS = 255  # steps of a grid between its lowest and its highest value
MAX_DIVISOR = 128  # of the smallest value of a channel, which need not be one step


class ByteGrid(NamedTuple):
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
    grid: ByteGrid | None = None

    def to_record(self) -> list[Any]:
        """Return the record that docs/internals/file-format.md describes."""
        (start, dtype, layout), grid = self.piece, self.grid
        factors = [list(sizes) for sizes in layout.factors]
        record = [start, dtype.value, list(layout.shape), factors, list(layout.order)]
        return [*record, self.weights, self.stored.value, *(grid or ())]


class WeightList:
    """Weights of a compiled model, each once, in the order of their numbers."""

    def __init__(self) -> None:
        self.arrays: list[np.ndarray] = []
        self._numbers: dict[bytes, int] = {}

    def number(self, array: np.ndarray) -> int:
        """Return the number of weights with these bytes."""
        key = array.tobytes()
        if key not in self._numbers:
            self._numbers[key] = len(self.arrays)
            self.arrays.append(array)
        return self._numbers[key]


class EncodedConstants(NamedTuple):
    """A plan's constants as a file stores them: the pieces that are stored apart, and the bytes
    between them.
    """

    pieces: tuple[StoredPiece, ...]
    remaining: np.ndarray


def encode_constants(plan: Plan, weights: WeightList) -> EncodedConstants:
    """Return the stored form of a plan's constants; their weights are added to a list."""
    kept = [one for one in sorted(plan.pieces) if _is_stored_apart(one)]
    pieces = tuple(_encode(plan, piece, weights) for piece in kept)
    ends = [0, *(edge for one in kept for edge in (one.start, one.start + one.bytes))]
    gaps = [*pairwise([*ends, plan.constants.nbytes])][::2]
    remaining = np.concatenate([plan.constants[start:end] for start, end in gaps])
    encoded = EncodedConstants(pieces, remaining)
    assert np.array_equal(_expanded(plan, encoded, weights), plan.constants)
    return encoded


def _expanded(plan: Plan, encoded: EncodedConstants, weights: WeightList) -> np.ndarray:
    records = [one.to_record() for one in encoded.pieces]
    data = [array.reshape(-1).view(np.uint8) for array in weights.arrays]
    return expand_constants(
        plan.constants.nbytes, records, encoded.remaining, lambda number: data[number]
    )


def _is_stored_apart(piece: Piece) -> bool:
    layout = piece.layout
    return piece.bytes >= MIN_PIECE_BYTES and (
        1 <= len(layout.shape) <= MAX_AXES and len(layout.order) <= MAX_DIMENSIONS
    )


def _encode(plan: Plan, piece: Piece, weights: WeightList) -> StoredPiece:
    flat = plan.constants[piece.start : piece.start + piece.bytes].view(piece.dtype.numpy)
    if len(piece.layout.shape) == 1 and flat.any():
        # The padding of a bias depends on the device. Without it, plans share the bias.
        used = int(np.flatnonzero(flat)[-1]) + 1
        piece = piece._replace(layout=ArrayLayout.plain((used,), (flat.size,)))
    array = piece.layout.restore(flat)
    if not np.array_equal(_bits(piece.layout.arrange(array)), _bits(flat)):
        piece = piece._replace(layout=ArrayLayout.plain((flat.size,)))  # its padding is not zero
        array = flat
    if piece.dtype in (DType.I8, DType.U8):
        zero = -min(int(array.min()), 0)
        codes = (array.astype(np.int16) + zero).astype(np.uint8)
        return StoredPiece(piece, weights.number(codes), DType.U8, ByteGrid(zero))
    if piece.dtype in (DType.F32, DType.F16):
        for axis in (None, 0, array.ndim - 1)[: 1 if array.ndim == 1 else 3]:
            found = find_grid(array, axis)
            if found is not None:
                return _on_grid(piece, found, axis, weights)
    if piece.dtype is DType.F32:
        halves = _as_halves(array)
        if halves is not None:
            return StoredPiece(piece, weights.number(halves), DType.F16)
    return StoredPiece(piece, weights.number(array), piece.dtype)


def _on_grid(
    piece: Piece, found: tuple[np.ndarray, np.ndarray], axis: int | None, weights: WeightList
) -> StoredPiece:
    steps, scales = found
    zero = -int(steps.min(initial=0))
    number = weights.number((steps + zero).astype(np.uint8))
    scale = float(scales.reshape(-1)[0]) if axis is None else weights.number(scales)
    return StoredPiece(piece, number, DType.U8, ByteGrid(zero, scale, axis))


def _as_halves(array: np.ndarray) -> np.ndarray | None:
    with np.errstate(over="ignore"):
        halves = array.astype(np.float16)
    exact = np.array_equal(_bits(halves.astype(np.float32)), _bits(array))
    return halves if exact and np.isfinite(halves).all() else None


def _bits(array: np.ndarray) -> np.ndarray:
    """Return the bytes of an array, which also tell NaN and the two zeros apart."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def find_grid(array: np.ndarray, axis: int | None) -> tuple[np.ndarray, np.ndarray] | None:
    """Return integer steps and fp32 scales whose products, rounded, are the array bit by bit.

    There is one scale, or one for each index along an axis. The result is None if there is no such
    grid with at most 256 steps. Dequantized weights have one; the scales are found from the values
    alone, so that it does not matter where the weights come from.
    """
    if not np.isfinite(array).all() or not array.any():
        return None
    rows = array.reshape(1, -1) if axis is None else np.moveaxis(array, axis, 0)
    rows = rows.reshape(rows.shape[0], -1)
    if rows.shape[1] < 8 and axis is not None:  # scales would take as much as they save
        return None
    first = rows[np.argmax((rows != 0).any(1))]
    if np.unique(first).size > MAX_STEPS + 1 or next(_scales(first[None]), None) is None:
        return None
    scales = np.ones(rows.shape[0], np.float32)
    pending = np.flatnonzero((rows != 0).any(1))
    for divisor in range(1, MAX_DIVISOR + 1):
        fits, found = _scales_for(rows[pending], divisor)
        scales[pending[fits]] = found[fits]
        pending = pending[~fits]
        if not pending.size:
            break
    else:
        return None
    steps = np.rint(rows.astype(np.float64) / scales[:, None]).astype(np.int16)
    same = (steps.astype(np.float32) * scales[:, None]).astype(array.dtype)
    if int(steps.max()) - min(int(steps.min()), 0) > MAX_STEPS or not np.array_equal(
        _bits(same), _bits(rows)
    ):
        return None
    if axis is None:
        return steps.reshape(array.shape), scales
    shape = array.shape
    moved = steps.reshape(shape[axis], *shape[:axis], *shape[axis + 1 :])
    return np.ascontiguousarray(np.moveaxis(moved, 0, axis)), scales


def _scales(rows: np.ndarray) -> Iterator[np.ndarray]:
    for divisor in range(1, MAX_DIVISOR + 1):
        fits, found = _scales_for(rows, divisor)
        if fits.all():
            yield found


@np.errstate(over="ignore")  # near the largest number of a type
def _scales_for(rows: np.ndarray, divisor: int) -> tuple[np.ndarray, np.ndarray]:
    """Return which rows have a grid whose smallest value is `divisor` steps, and their scales.

    Each value allows the scales that round to it. The scale is in the middle of those that all
    values allow.
    """
    values = np.abs(rows.astype(np.float64))
    smallest = np.where(values > 0, values, np.inf).min(1, keepdims=True)
    steps = np.rint(values / (smallest / divisor))
    half = np.spacing(np.abs(rows)).astype(np.float64) / 2
    some = steps > 0
    count = np.maximum(steps, 1)
    low = np.where(some, (values - half) / count, 0).max(1)
    high = np.where(some, (values + half) / count, np.inf).min(1)
    fits = (low <= high) & (steps.max(1) <= MAX_STEPS)
    scales = np.where(fits, (low + high) / 2, 1.0).astype(np.float32)
    again = (steps.astype(np.float32) * scales[:, None]).astype(rows.dtype)
    return fits & (again == np.abs(rows)).all(1), scales
