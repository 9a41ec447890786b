"""Error messages for faulty kernels, with the kernel, pointer, index and work-item."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fourfold.backends.interpreter.frame import Frame
from fourfold.backends.interpreter.memory import SEVERAL
from fourfold.errors import DeviceError


def fault(frame: Frame, lane: int, does: str, why: str, fix: str) -> DeviceError:
    """Return the error for what one work-item of a kernel does."""
    who = frame.grid.name(int(frame.numbers[0, lane]))
    return DeviceError(f"kernel '{frame.launch.title}' {does}", f"{who} {why}", fix)


def first_lane(frame: Frame, wrong: np.ndarray) -> int:
    """Return the first active work-item with an error in its column."""
    columns = np.broadcast_to(wrong.any(axis=0), (frame.lanes,))
    lane, mask = int(columns.argmax()), frame.mask
    return lane if mask is None or mask.items[0, lane] else mask.first


def element(values: np.ndarray, lane: int) -> int:
    """Return the number in a work-item's column."""
    return int(values[0, 0 if values.shape[1] == 1 else lane])


def out_of_bounds(
    frame: Frame, title: str, verb: str, start: np.ndarray, width: int, extent: int
) -> DeviceError:
    """Return the error for accesses outside the extent; `start` is the first element of each
    work-item.
    """
    lane = first_lane(frame, (start < 0) | (start > extent - width))
    first = element(start, lane)
    elements = f"element {first}" if width == 1 else f"elements {first} to {first + width - 1}"
    why = f"{verb} {elements}, but there are only {extent}"
    fix = "correct the index, or guard the access with a condition"
    return fault(frame, lane, f"{verb} '{title}' out of bounds", why, fix)


def misaligned(
    frame: Frame, title: str, verb: str, start: np.ndarray, remainders: np.ndarray, alignment: int
) -> DeviceError:
    """Return the error for misaligned vectors; `rest` is the remainder of each start."""
    lane = first_lane(frame, remainders != 0)
    remainder = element(remainders, lane)
    why = f"{verb} element {element(start, lane)}, {remainder} after a multiple of {alignment}"
    fix = "access fewer elements at once, or align the vectors"
    return fault(frame, lane, f"{verb} '{title}' at a misaligned vector", why, fix)


def never_written(frame: Frame, title: str, indices: np.ndarray, wrong: np.ndarray) -> DeviceError:
    lane = first_lane(frame, wrong)
    why = f"reads element {_one(indices, wrong, lane)}, which was never written"
    fix = "write it first, or guard the read with a condition"
    return fault(frame, lane, f"reads uninitialized memory of '{title}'", why, fix)


def race(
    frame: Frame,
    title: str,
    verb: str,
    indices: np.ndarray,
    conflicts: np.ndarray,
    owner: Callable[[int], str],
) -> DeviceError:
    """Return the error for a data race; `conflicts` are stamps of others, or -1, `owner` names a
    stamp.
    """
    wrong = conflicts >= 0
    lane = first_lane(frame, wrong)
    column = conflicts[:, 0 if conflicts.shape[1] == 1 else lane]
    stamp = int(column.max())
    other = "others" if stamp & SEVERAL else owner(stamp)
    did = "wrote" if verb == "reads" else "accessed"
    why = f"{verb} element {_one(indices, wrong, lane)}, which {other} {did} at the same time"
    fix = "let only one work-item access it, or add a barrier or a new launch in between"
    return fault(frame, lane, f"has a data race on '{title}'", why, fix)


def local_owner(frame: Frame, stamp: int) -> str:
    """Return the name of the work-item with a stamp in local memory."""
    return frame.grid.name(stamp & (SEVERAL - 1)).partition(" of ")[0] + " of the same group"


def too_early(frame: Frame, title: str, verb: str) -> DeviceError:
    lane = 0 if frame.mask is None else frame.mask.first
    why = f"{verb} it before it awaits its inputs, while earlier kernels are running"
    fix = "await the inputs first: until then only constants may be read"
    return fault(frame, lane, f"{verb} '{title}' too early", why, fix)


def not_uploaded(frame: Frame, title: str, start: np.ndarray, late: np.ndarray) -> DeviceError:
    lane = first_lane(frame, late)
    why = f"reads element {element(start, lane)} without waiting for the host to upload it"
    fix = "await more pieces, or read less"
    return fault(frame, lane, f"reads '{title}' too early", why, fix)


def _one(indices: np.ndarray, wrong: np.ndarray, lane: int) -> int:
    """Return the first wrong element of a work-item."""
    column = 0 if wrong.shape[1] == 1 else lane
    row = int(wrong[:, column].argmax()) * indices.shape[0] // wrong.shape[0]
    return int(indices[row, 0 if indices.shape[1] == 1 else lane])
