"""Weights that a file had as halves: the graph has them as floats, the new file as halves again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fourfold.formats.writable import StoredAs, WritableModel
from fourfold.types import DType

_LEAST = 256  # elements of what counts as weights; shorter lists may be halves by chance
_PART = 0.9  # of all weights, from which on a model was one of halves


def keep_halves(model: WritableModel) -> WritableModel:
    """The model with weights that lose nothing as halves in `stored`, if nearly all of them are
    such. Single ones are left: zeros or whole numbers of any model would be among them.
    """
    graph = model.graph
    weights = {
        name: array
        for name, array in graph.constants.items()
        if array.dtype == np.float32 and array.size >= _LEAST and name not in model.stored
    }
    halves = {name: array for name, array in weights.items() if _fits(array)}
    every, found = (sum(one.size for one in some.values()) for some in (weights, halves))
    if not found or found < _PART * every:
        return model
    stored = {**dict.fromkeys(halves, StoredAs(DType.F16)), **model.stored}
    return replace(model, stored=stored)


def _fits(array: np.ndarray) -> bool:
    with np.errstate(over="ignore"):
        return bool(np.array_equal(array.astype(np.float16).astype(np.float32), array))
