"""What ops share that put updates into a tensor: what becomes of an element that several meet."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

# How an element and an update are combined; without a reduction the update takes its place.
REDUCTIONS: dict[str, Callable[..., np.ndarray] | None] = {
    "none": None,
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}


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
