"""Lookups and updates by single elements, as those by places along all axes."""

from __future__ import annotations

import numpy as np

from fourfold.formats.tflite.write_graph.expansion import Expansion, expands
from fourfold.ops.concat import Concat
from fourfold.ops.gather_elements import GatherElements
from fourfold.ops.scatter_elements import ScatterElements
from fourfold.ops.scatter_nd import ScatterNd
from fourfold.ops.scatter_update import ScatterUpdate
from fourfold.types import DType, Shape

_REDUCTIONS = ("none", "add")


def _from_start(to: Expansion, indices: str, sizes: Shape) -> str:
    """Indices as i32, those below zero counted from the end. The last axis has one for each of
    `sizes`, or there is one size for all.
    """
    limits = np.array(sizes, np.int32)
    if indices in to.constants:
        array = to.constants[indices]
        known = np.where(array < 0, array + limits, array).astype(np.int32)
        return to.constant(known, "places")
    places = to.cast(indices, DType.I32)
    back = to.add("add", places, to.constant(limits, "sizes"))
    return to.add("select", to.add("less", places, to.number(0, places)), back, places)


def _places(to: Expansion, indices: str, axis: int, size: int) -> str:
    """For each index the whole place that it names: its own, but along the axis."""
    shape = to.type(indices).shape
    found = to.reshaped(_from_start(to, indices, (size,)), (*shape, 1))
    if found in to.constants:
        found = to.constant(to.constants[found].reshape(*shape, 1), "places")
    columns = [
        found
        if other == axis
        else to.constant(np.indices(shape, np.int32)[other][..., None], "own")
        for other in range(len(shape))
    ]
    if len(columns) == 1:
        return found
    return to.add("concat", *columns, attributes=Concat(len(shape)))


@expands("gather_elements")
def gather_elements(to: Expansion) -> bool:
    """gather_nd."""
    axis, x = to.attributes(GatherElements).axis, to.type(to.input(0))
    places = _places(to, to.input(1), axis, x.shape[axis])
    return to.give("gather_nd", to.input(0), places)


@expands("scatter_elements")
def scatter_elements(to: Expansion) -> bool:
    """The same by places along all axes."""
    a, x = to.attributes(ScatterElements), to.type(to.input(0))
    if a.reduction not in _REDUCTIONS:
        return False
    places = _places(to, to.input(1), a.axis, x.shape[a.axis])
    return _update(to, places, a.reduction)


@expands("scatter_update")
def scatter_update(to: Expansion) -> bool:
    """scatter_nd into zeros, and a choice or a sum with what was there."""
    a, x = to.attributes(ScatterUpdate), to.type(to.input(0))
    depth = to.type(to.input(1)).channels
    if a.reduction not in _REDUCTIONS or depth == 0:
        return False
    return _update(to, _from_start(to, to.input(1), x.shape[:depth]), a.reduction)


def _update(to: Expansion, places: str, reduction: str) -> bool:
    x, updates = to.input(0), to.input(2)
    shape = to.type(x).shape
    into = ScatterNd(shape)
    if reduction == "add":
        return to.give("add", x, to.add("scatter_nd", places, updates, attributes=into))
    ones = to.constant(np.ones(to.type(updates).shape, np.int32), "ones")
    hits = to.add("scatter_nd", places, ones, attributes=into)
    new = to.add("scatter_nd", places, updates, attributes=into)
    return to.give("select", to.add("greater", hits, to.number(0, hits)), new, x)
