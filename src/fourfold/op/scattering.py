"""What ops share that put updates into a tensor, or look up by indices that have its rank."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fourfold.op.rules import INDICES, NUMBERS, require, require_axis, require_kind
from fourfold.types import Shape, TensorType

# How an element and an update are combined; without a reduction the update takes its place.
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
    """Updates of a tensor are numbers, and combine with its own in a way that is known."""
    require_kind(op, NUMBERS, x, updates)
    require_kind(op, INDICES, indices)
    require(reduction in REDUCTIONS, op, f"there is no {reduction!r}")


def require_rows(op: str, shape: Shape, indices: TensorType, updates: TensorType) -> None:
    """Each row of the indices names a place along the first axes of a shape, and has an update of
    the shape of what is there.
    """
    named = indices.rank > 0 and 0 < indices.channels <= len(shape) and min(shape) > 0
    require(named, op, f"{indices} does not name places in {list(shape)}")
    wanted = (*indices.shape[:-1], *shape[indices.channels :])
    require(updates.shape == wanted, op, f"updates are {updates}, but must be {list(wanted)}")


def require_along(op: str, axis: int, x: TensorType, indices: TensorType) -> None:
    """Indices along an axis are as many as they like; in the others they stay within x."""
    require_axis(op, axis, x.rank)
    require(indices.rank == x.rank, op, f"{indices} does not have the rank of {x}")
    pairs = enumerate(zip(indices.shape, x.shape, strict=True))
    inside = all(mine <= theirs for number, (mine, theirs) in pairs if number != axis)
    require(inside, op, f"{indices} reaches beyond {x}")


def from_start(indices: np.ndarray, size: int | np.ndarray) -> np.ndarray:
    """Indices of which those below zero count from the end."""
    return np.where(indices < 0, indices + size, indices)


def scatter(
    y: np.ndarray, places: tuple[np.ndarray, ...], updates: np.ndarray, reduction: str
) -> np.ndarray:
    """`y` with updates at places, one after the other."""
    function = REDUCTIONS[reduction]
    if function is None:
        y[places] = updates
    else:
        function.at(y, places, updates)  # type: ignore[attr-defined]
    return y
