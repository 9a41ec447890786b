"""Stores weights as float16 again if the original file did; the graph has them as float32."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fourfold.formats.writable import StoredAs, WritableModel
from fourfold.types import DType

_MIN_ELEMENTS = 256  # elements of a weight tensor; shorter ones may be exact in float16 by chance
_MIN_FRACTION = 0.9  # fraction of all weights that must be exact in float16


def keep_float16(model: WritableModel) -> WritableModel:
    """Store weights as float16 if nearly all of them are exact in it.

    Single ones are not converted: zeros or integers of any model would be among them.
    """
    graph = model.graph
    weights = {
        name: array
        for name, array in graph.constants.items()
        if array.dtype == np.float32 and array.size >= _MIN_ELEMENTS and name not in model.stored
    }
    exact = {name: array for name, array in weights.items() if _fits(array)}
    total, exact_count = (sum(one.size for one in some.values()) for some in (weights, exact))
    if not exact_count or exact_count < _MIN_FRACTION * total:
        return model
    stored = {**dict.fromkeys(exact, StoredAs(DType.F16)), **model.stored}
    return replace(model, stored=stored)


def _fits(array: np.ndarray) -> bool:
    with np.errstate(over="ignore"):
        return bool(np.array_equal(array.astype(np.float16).astype(np.float32), array))
