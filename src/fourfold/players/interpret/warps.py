"""What the work-items of a sub-group do together: exchange values, and multiply matrices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from fourfold.players.interpret.faults import fault, first_lane
from fourfold.players.interpret.frame import Frame, PointerLike
from fourfold.players.interpret.loads import join_halves, split_halves

Evaluate = Callable[[Frame], np.ndarray]
WARP = 32  # work-items that hold a matrix together
WARPS = 4  # of them that multiply what lies in local memory
_ROWS = 8  # of which four each hold a row


def pack_halves(value: Evaluate, frame: Frame) -> np.ndarray:
    """Four floats as halves in two words."""
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
    """The value of the neighbour whose number differs in one bit: it must be there, and ask."""
    mine, bit, size = value(frame), int(apart(frame)[0, 0]), frame.subgroup
    own = frame.local_ids[0].astype(np.int64)
    partner = own ^ bit
    outside = (partner // size != own // size) | (partner >= frame.grid.local[0])
    return _taken(frame, mine, partner - own, outside)


def subgroup_shift(value: Evaluate, distance: Evaluate, frame: Frame) -> np.ndarray:
    """The value of the work-item so many lanes further on; where there is none, its own."""
    mine, step, size = value(frame), int(distance(frame)[0, 0]), frame.subgroup
    own = frame.local_ids[0].astype(np.int64)
    there = (own + step >= 0) & ((own + step) // size == own // size)
    there &= own + step < frame.grid.local[0]
    return _taken(frame, mine, np.where(there, step, 0), np.zeros_like(there))


def _taken(frame: Frame, value: np.ndarray, step: np.ndarray, outside: np.ndarray) -> np.ndarray:
    """What others have, `step` further on; all who are asked must take part."""
    lanes = np.arange(frame.lanes)[None]
    partners = np.where(outside, lanes, lanes + step)
    absent = outside
    if frame.mask is not None:
        absent = (outside | ~frame.mask.items[0][partners]) & frame.mask.items
    if absent.any():
        lane = first_lane(frame, absent)
        why = "asks for the value of one that is not in its sub-group, or does not take part"
        fix = "exchange where all of a sub-group do, and no further than it reaches"
        raise fault(frame, lane, "exchanges with nobody", why, fix)
    if value.shape[1] == 1:
        return value
    return value[:, partners[0]]


def check_warps(frame: Frame, together: int = WARP) -> None:
    """Matrices are multiplied by whole warps only, or by several `together`."""
    mask = frame.mask
    if frame.grid.items % together:
        why = f"multiplies matrices in a group of {frame.grid.items}"
        raise fault(frame, 0, "has no whole warps", why, f"use groups of {together} work-items")
    if mask is None:
        return
    some = mask.items.reshape(-1, together)
    parts = np.repeat(some.any(1) & ~some.all(1), together)[None] & mask.items
    if parts.any():
        why = "multiplies a matrix, and others of its warp do not"
        fix = "let all work-items of a warp take the same way, or none"
        raise fault(frame, first_lane(frame, parts), "multiplies with a part of a warp", why, fix)


def multiply(
    frame: Frame, total: np.ndarray, upper: np.ndarray, lower: np.ndarray, factor: np.ndarray
) -> np.ndarray:
    """total + the product of matrices that each warp holds, as MatrixMultiply lays them out."""
    rows = np.concatenate([_matrix(frame, upper), _matrix(frame, lower)], axis=1)
    product = rows @ _matrix(frame, factor).transpose(0, 2, 1)
    pairs = product.reshape(-1, 2, _ROWS, 4, 2).transpose(1, 4, 0, 2, 3)
    return total + pairs.reshape(4, frame.lanes)


class Pieces(NamedTuple):
    """A matrix of sixteen halves a row in local memory, as WarpgroupMultiply finds it there."""

    pointer: PointerLike
    first: np.ndarray
    pitch: np.ndarray

    def row(self, frame: Frame, number: np.ndarray) -> np.ndarray:
        """The halves of one row for each work-item, as floats."""
        place = self.first + number
        words = [self.pointer.read(frame, place + half * self.pitch, 4) for half in (0, 1)]
        halves = [split_halves(np.broadcast_to(part, (4, frame.lanes))) for part in words]
        return np.concatenate(halves).astype(np.float32)


def multiply_pieces(
    frame: Frame, rows: Pieces, columns: Pieces, blocks: int
) -> Iterator[np.ndarray]:
    """What each work-item has of the product of four warps: for each block of eight columns."""
    check_warps(frame, WARPS * WARP)
    lane = frame.items % WARP
    line, column = frame.items // WARP % WARPS * 16 + lane // 4, lane % 4 * 2
    left = [rows.row(frame, line + below) for below in (0, 8)]
    for block in range(blocks):
        right = [columns.row(frame, block * 8 + column + beside) for beside in (0, 1)]
        yield np.stack([(row * other).sum(0) for row in left for other in right])


def _matrix(frame: Frame, words: np.ndarray) -> np.ndarray:
    """The rows of a matrix for each warp: a row is held by four neighbours, four halves each."""
    halves = split_halves(np.broadcast_to(words, (2, frame.lanes))).astype(np.float32)
    return halves.T.reshape(-1, _ROWS, 16)


def picked(words: np.ndarray, pick: np.ndarray) -> np.ndarray:
    """The bytes of words where the digits of `pick` say; a digit of 4 is a zero."""
    bits, found = words.view(np.uint32), np.zeros_like(words, np.uint32)
    for place in range(4):
        digit = (pick.view(np.uint32) >> np.uint32(4 * place)) & np.uint32(15)
        byte = (bits >> (digit & np.uint32(3)) * np.uint32(8)) & np.uint32(255)
        found = found | np.where(digit < 4, byte, 0).astype(np.uint32) << np.uint32(8 * place)
    return found


WARP_OPS: dict[str, Callable[..., np.ndarray]] = {
    "pack_halves": pack_halves,
    "unpack_halves": unpack_halves,
    "subgroup_size": subgroup_size,
    "subgroup_exchange": subgroup_exchange,
    "subgroup_shift": subgroup_shift,
}
