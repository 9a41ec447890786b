"""The messages of what is wrong with a kernel: its title, the pointer, the index, the work-item."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fourfold.errors import DeviceError
from fourfold.players.interpret.frame import Frame
from fourfold.players.interpret.races import MANY


def fault(frame: Frame, lane: int, does: str, why: str, fix: str) -> DeviceError:
    """The error for what one work-item of a kernel does."""
    who = frame.grid.name(int(frame.numbers[0, lane]))
    return DeviceError(f"kernel '{frame.launch.title}' {does}", f"{who} {why}", fix)


def first_lane(frame: Frame, wrong: np.ndarray) -> int:
    """The first work-item that takes part and has a column with something wrong."""
    columns = np.broadcast_to(wrong.any(axis=0), (frame.lanes,))
    lane, mask = int(columns.argmax()), frame.mask
    return lane if mask is None or mask.items[0, lane] else mask.first


def element(values: np.ndarray, lane: int) -> int:
    """The number in a work-item's column."""
    return int(values[0, 0 if values.shape[1] == 1 else lane])


def out_of_bounds(
    frame: Frame, title: str, verb: str, start: np.ndarray, width: int, extent: int
) -> DeviceError:
    """`start` is where each work-item begins, and not all of that is within the extent."""
    lane = first_lane(frame, (start < 0) | (start > extent - width))
    first = element(start, lane)
    some = f"element {first}" if width == 1 else f"elements {first} to {first + width - 1}"
    why = f"{verb} {some}, and there are {extent} of them"
    fix = "correct the index, or guard the access by a condition"
    return fault(frame, lane, f"{verb} '{title}' out of bounds", why, fix)


def misaligned(
    frame: Frame, title: str, verb: str, start: np.ndarray, rest: np.ndarray, alignment: int
) -> DeviceError:
    """`rest` is by how much each start is behind a multiple of `alignment`."""
    lane = first_lane(frame, rest != 0)
    beyond = element(rest, lane)
    why = f"{verb} element {element(start, lane)}, {beyond} behind a multiple of {alignment}"
    fix = "read and write fewer elements at once, or let the vectors start at multiples"
    return fault(frame, lane, f"{verb} '{title}' across the bounds of vectors", why, fix)


def never_written(frame: Frame, title: str, indices: np.ndarray, wrong: np.ndarray) -> DeviceError:
    lane = first_lane(frame, wrong)
    why = f"reads element {_one(indices, wrong, lane)}, and nobody has written there"
    fix = "write it first, or guard the read by a condition"
    return fault(frame, lane, f"reads '{title}' where nothing was written", why, fix)


def race(
    frame: Frame,
    title: str,
    verb: str,
    indices: np.ndarray,
    conflicts: np.ndarray,
    owner: Callable[[int], str],
) -> DeviceError:
    """`conflicts` are stamps of others, or -1; `owner` names who left one."""
    wrong = conflicts >= 0
    lane = first_lane(frame, wrong)
    column = conflicts[:, 0 if conflicts.shape[1] == 1 else lane]
    stamp = int(column.max())
    other = "others" if stamp & MANY else owner(stamp)
    did = "wrote" if verb == "reads" else "touched"
    why = f"{verb} element {_one(indices, wrong, lane)}, which {other} {did} at the same time"
    fix = "let one work-item alone touch it, or put a barrier or a new launch in between"
    return fault(frame, lane, f"races for '{title}'", why, fix)


def local_owner(frame: Frame, stamp: int) -> str:
    """Who left a stamp in local memory."""
    return frame.grid.name(stamp & (MANY - 1)).partition(" of ")[0] + " of the same group"


def too_early(frame: Frame, title: str, verb: str) -> DeviceError:
    lane = 0 if frame.mask is None else frame.mask.first
    why = f"{verb} it before it awaits its inputs, while kernels before it are at work"
    fix = "await the inputs first: until then only constants may be read"
    return fault(frame, lane, f"{verb} '{title}' too early", why, fix)


def not_brought(frame: Frame, title: str, start: np.ndarray, late: np.ndarray) -> DeviceError:
    lane = first_lane(frame, late)
    why = f"reads element {element(start, lane)}, and has not waited for the host to bring it"
    fix = "let it await more pieces, or read less"
    return fault(frame, lane, f"reads '{title}' too early", why, fix)


def _one(indices: np.ndarray, wrong: np.ndarray, lane: int) -> int:
    """The first wrong element of a work-item."""
    column = 0 if wrong.shape[1] == 1 else lane
    row = int(wrong[:, column].argmax()) * indices.shape[0] // wrong.shape[0]
    return int(indices[row, 0 if indices.shape[1] == 1 else lane])
