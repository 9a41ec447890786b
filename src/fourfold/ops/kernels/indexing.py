"""Type checks, references and kernel indices of ops that look up elements or scatter updates.

Indices are values, and may be anything. A lookup takes the nearest valid element for an index that
is out of range, and a scatter ignores it: no kernel accesses memory outside of its tensors. Callers
are told where that is cheap: `Op.indices` states the valid ranges, against which constants are
checked when a model is read, and inputs before each run.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fourfold.codegen.expression import Expression, maximum, minimum, vector, where
from fourfold.codegen.view import View
from fourfold.ops.base.rules import INDICES, NUMBERS, require, require_axis, require_kind
from fourfold.types import Shape, TensorType

# How an element and an update are combined. Without a reduction, the update replaces it.
REDUCTIONS: dict[str, Callable[..., np.ndarray] | None] = {
    "none": None,
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}


def require_scatter(
    op: str, reduction: str, x: TensorType, indices: TensorType, updates: TensorType
) -> None:
    """Require numbers as updates, integer indices and a supported reduction."""
    require_kind(op, NUMBERS, x, updates)
    require_kind(op, INDICES, indices)
    require(reduction in REDUCTIONS, op, f"there is no reduction {reduction!r}")


def require_rows(op: str, shape: Shape, indices: TensorType, updates: TensorType) -> None:
    """Require indices whose rows address elements or slices of `shape`, and matching updates."""
    valid = indices.rank > 0 and 0 < indices.channels <= len(shape) and min(shape) > 0
    require(valid, op, f"the rows of {indices} cannot index {list(shape)}")
    expected = (*indices.shape[:-1], *shape[indices.channels :])
    require(updates.shape == expected, op, f"updates are {updates}, but must be {list(expected)}")


def require_along(op: str, axis: int, x: TensorType, indices: TensorType) -> None:
    """Require indices of the rank of x that are within x on all axes but `axis`."""
    require_axis(op, axis, x.rank)
    require(indices.rank == x.rank, op, f"{indices} does not have the rank of {x}")
    pairs = enumerate(zip(indices.shape, x.shape, strict=True))
    inside = all(index_size <= size for number, (index_size, size) in pairs if number != axis)
    require(inside, op, f"{indices} reaches beyond {x}")


def wrap_indices(indices: np.ndarray, size: int | np.ndarray) -> np.ndarray:
    """Convert negative indices, which count from the end, to positive ones."""
    wide = indices.astype(np.int64)
    return np.where(wide < 0, wide + size, wide)


def bound_indices(
    indices: np.ndarray, size: int | np.ndarray, from_end: bool = False
) -> np.ndarray:
    """Return the nearest valid index for each index; with `from_end`, negative ones count from
    the end.
    """
    wide = wrap_indices(indices, size) if from_end else indices.astype(np.int64)
    return np.clip(wide, 0, size - 1)


def scatter(
    y: np.ndarray, positions: tuple[np.ndarray, ...], updates: np.ndarray, reduction: str
) -> np.ndarray:
    """Apply the updates to `y` at the given positions, one after the other, and return `y`.
    Updates whose position is out of range are ignored.
    """
    function = REDUCTIONS[reduction]
    valid = np.ones(positions[0].shape, np.bool_)
    for position, size in zip(positions, y.shape, strict=False):
        valid &= (position >= 0) & (position < size)
    if not valid.all():
        positions, updates = tuple(position[valid] for position in positions), updates[valid]
    if function is None:
        y[positions] = updates
    else:
        function.at(y, positions, updates)  # type: ignore[attr-defined]
    return y


def wrap_index(view: View, axis: int, index: Expression) -> Expression:
    """Return an index along an axis. A negative one counts from the end."""
    position = view.kernel.let(index, "index")
    wrapped = where(position < 0, position + axis_size(view, axis), position)
    return view.kernel.let(wrapped, "index")


def bound_index(view: View, axis: int, index: Expression, from_end: bool = False) -> Expression:
    """Return the nearest valid index along an axis; with `from_end`, a negative one counts from
    the end.
    """
    position = wrap_index(view, axis, index) if from_end else view.kernel.let(index, "index")
    last = axis_size(view, axis) - 1
    return view.kernel.let(minimum(maximum(position, 0), last), "index")


def axis_size(view: View, axis: int) -> Expression:
    """Return the size of an axis, of which the last one holds the channels."""
    return view.channels if axis == view.type.rank - 1 else view.axis(axis)


def matching_lanes(channel: Expression, slice_: Expression) -> Expression:
    """Return a mask of the lane, of the four channels of a slice, that holds `channel`."""
    return vector(*(channel.equals(slice_ * 4 + lane) for lane in range(4)))


def update_pixel_of(
    indices: View, updates: View, row: Expression, others: list[Expression]
) -> Expression:
    """Return the pixel in the updates for a row of indices, at `others` along the other axes."""
    pixel = row
    for axis, at in zip(range(indices.type.rank - 1, updates.type.rank - 1), others, strict=True):
        pixel = pixel * updates.axis(axis) + at
    return pixel


def apply_reduction(reduction: str, before: Expression, update: Expression) -> Expression:
    """Return the new value of an element after an update."""
    if reduction == "none":
        return update
    if reduction in ("max", "min"):
        return (maximum if reduction == "max" else minimum)(before, update)
    return before + update if reduction == "add" else before * update
