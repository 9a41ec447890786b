"""Operations of a sub-group: exchange of values, and matrix products."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from fourfold.backends.interpreter.faults import fault, first_lane
from fourfold.backends.interpreter.frame import Frame, PointerLike
from fourfold.backends.interpreter.loads import join_halves, split_halves

Evaluate = Callable[[Frame], np.ndarray]
WARP = 32  # work-items that hold a matrix together
WARPS = 4  # warps that multiply matrices in local memory
_ROWS = 8  # four work-items hold a row


def pack_halves(value: Evaluate, frame: Frame) -> np.ndarray:
    """Convert four floats to fp16 in two words."""
    four = value(frame)
    four = four if four.shape[0] == 4 else np.broadcast_to(four, (4, four.shape[1]))
    return join_halves(four.astype(np.float16).view(np.uint16))


def unpack_halves(value: Evaluate, frame: Frame) -> np.ndarray:
    words = value(frame)
    words = words if words.shape[0] == 2 else np.broadcast_to(words, (2, words.shape[1]))
    return split_halves(words).astype(np.float32)


def subgroup_size(frame: Frame) -> np.ndarray:
    return np.array([[frame.subgroup]], np.int32)


def subgroup_exchange(value: Evaluate, apart: Evaluate, frame: Frame) -> np.ndarray:
    """Return the value of the neighbour whose number differs in one bit, which must be active."""
    mine, bit, size = value(frame), int(apart(frame)[0, 0]), frame.subgroup
    own = frame.local_ids[0].astype(np.int64)
    partner = own ^ bit
    outside = (partner // size != own // size) | (partner >= frame.grid.local[0])
    return _values_of_others(frame, mine, partner - own, outside)


def subgroup_shift(value: Evaluate, distance: Evaluate, frame: Frame) -> np.ndarray:
    """Return the value of the work-item this many lanes further on, or its own if there is none."""
    mine, step, size = value(frame), int(distance(frame)[0, 0]), frame.subgroup
    own = frame.local_ids[0].astype(np.int64)
    exists = (own + step >= 0) & ((own + step) // size == own // size)
    exists &= own + step < frame.grid.local[0]
    return _values_of_others(frame, mine, np.where(exists, step, 0), np.zeros_like(exists))


def _values_of_others(
    frame: Frame, value: np.ndarray, step: np.ndarray, outside: np.ndarray
) -> np.ndarray:
    """Return the values `step` lanes further on; all sources must be active."""
    lanes = np.arange(frame.lanes)[None]
    partners = np.where(outside, lanes, lanes + step)
    absent = outside
    if frame.mask is not None:
        absent = (outside | ~frame.mask.items[0][partners]) & frame.mask.items
    if absent.any():
        lane = first_lane(frame, absent)
        why = "reads the value of a work-item outside its sub-group, or of an inactive one"
        fix = "exchange where all work-items of a sub-group are active, and only within it"
        raise fault(frame, lane, "exchanges with a missing work-item", why, fix)
    if value.shape[1] == 1:
        return value
    return value[:, partners[0]]


def check_warps(frame: Frame, together: int = WARP) -> None:
    """Check that all work-items of `together` consecutive ones are active, or none."""
    mask = frame.mask
    if frame.grid.items % together:
        why = f"multiplies matrices in a group of {frame.grid.items}"
        raise fault(frame, 0, "has incomplete warps", why, f"use groups of {together} work-items")
    if mask is None:
        return
    some = mask.items.reshape(-1, together)
    parts = np.repeat(some.any(1) & ~some.all(1), together)[None] & mask.items
    if parts.any():
        why = "multiplies a matrix, but others of its warp do not"
        fix = "let all work-items of a warp take the same branch"
        raise fault(
            frame, first_lane(frame, parts), "multiplies with a partially active warp", why, fix
        )


def multiply(
    frame: Frame, total: np.ndarray, upper: np.ndarray, lower: np.ndarray, factor: np.ndarray
) -> np.ndarray:
    """Return total + the product of matrices that each warp holds, in the layout of
    MatrixMultiply.
    """
    rows = np.concatenate([_matrix(frame, upper), _matrix(frame, lower)], axis=1)
    product = rows @ _matrix(frame, factor).transpose(0, 2, 1)
    pairs = product.reshape(-1, 2, _ROWS, 4, 2).transpose(1, 4, 0, 2, 3)
    return total + pairs.reshape(4, frame.lanes)


class Pieces(NamedTuple):
    """A matrix of sixteen fp16 per row in local memory, in the layout of WarpgroupMultiply."""

    pointer: PointerLike
    first: np.ndarray
    pitch: np.ndarray

    def row(self, frame: Frame, number: np.ndarray) -> np.ndarray:
        """Return the values of one row for each work-item, as floats."""
        position = self.first + number
        words = [self.pointer.read(frame, position + half * self.pitch, 4) for half in (0, 1)]
        halves = [split_halves(np.broadcast_to(part, (4, frame.lanes))) for part in words]
        return np.concatenate(halves).astype(np.float32)


def multiply_pieces(
    frame: Frame, rows: Pieces, columns: Pieces, blocks: int
) -> Iterator[np.ndarray]:
    """Yield each work-item's part of the product of four warps, per block of eight columns."""
    check_warps(frame, WARPS * WARP)
    lane = frame.items % WARP
    line, column = frame.items // WARP % WARPS * 16 + lane // 4, lane % 4 * 2
    left = [rows.row(frame, line + below) for below in (0, 8)]
    for block in range(blocks):
        right = [columns.row(frame, block * 8 + column + offset) for offset in (0, 1)]
        yield np.stack([(row * other).sum(0) for row in left for other in right])


def _matrix(frame: Frame, words: np.ndarray) -> np.ndarray:
    """Return the rows of a matrix for each warp: four neighbours hold a row, four fp16 each."""
    halves = split_halves(np.broadcast_to(words, (2, frame.lanes))).astype(np.float32)
    return halves.T.reshape(-1, _ROWS, 16)


def picked(words: np.ndarray, pick: np.ndarray) -> np.ndarray:
    """Select bytes of words by the digits of `pick`; a digit of 4 is a zero."""
    bits, selected = words.view(np.uint32), np.zeros_like(words, np.uint32)
    for position in range(4):
        digit = (pick.view(np.uint32) >> np.uint32(4 * position)) & np.uint32(15)
        byte = (bits >> (digit & np.uint32(3)) * np.uint32(8)) & np.uint32(255)
        selected = selected | np.where(digit < 4, byte, 0).astype(np.uint32) << np.uint32(
            8 * position
        )
    return selected


WARP_OPS: dict[str, Callable[..., np.ndarray]] = {
    "pack_halves": pack_halves,
    "unpack_halves": unpack_halves,
    "subgroup_size": subgroup_size,
    "subgroup_exchange": subgroup_exchange,
    "subgroup_shift": subgroup_shift,
}
