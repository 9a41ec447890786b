"""Recovers the integers of constants that were stored quantized."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fourfold.graph import Graph


@dataclass(frozen=True, eq=False)
class StoredSteps:
    """real = whole * scale; one scale per channel, or one for all."""

    whole: np.ndarray
    scales: np.ndarray


def stored_steps(graph: Graph, name: str | None, axis: int) -> StoredSteps | None:
    """Return the integers of a quantized constant with channels along `axis`, or None."""
    array = None if name is None else graph.constants.get(name)
    stored = graph.quantization.get(str(name))
    if array is None or stored is None or stored.axis not in (None, axis):
        return None
    scales = np.array(stored.scale, np.float32)
    if not (scales > 0).all():
        return None
    shape = [1] * array.ndim
    if stored.axis is not None:
        shape[axis] = -1
    integers = np.rint(array.astype(np.float64) / scales.reshape(shape))
    return StoredSteps(integers.astype(np.float32), scales)
