"""Expansions of lookups and scatters into those of TFLite, whose indices are never negative."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fourfold.formats.tflite.write_graph.expand import Expansion, expands
from fourfold.ops.concat import Concat
from fourfold.ops.gather import Gather
from fourfold.ops.gather_elements import GatherElements
from fourfold.ops.gather_nd import GatherNd
from fourfold.ops.scatter_elements import ScatterElements
from fourfold.ops.scatter_nd import ScatterNd
from fourfold.ops.scatter_update import ScatterUpdate
from fourfold.types import DType, Shape

_REDUCTIONS = ("none", "add")


def _from_start(to: Expansion, indices: str, sizes: Shape) -> str:
    """Return indices as i32, with negative ones counted from the end.

    `sizes` has one size per entry of the last axis, or one for all.
    """
    limits = np.array(sizes, np.int32)
    if indices in to.constants:
        array = to.constants[indices]
        constant_indices = np.where(array < 0, array + limits, array).astype(np.int32)
        return to.constant(constant_indices, "places")
    cast_indices = to.cast(indices, DType.I32)
    back = to.add("add", cast_indices, to.constant(limits, "sizes"))
    return to.add(
        "select", to.add("less", cast_indices, to.number(0, cast_indices)), back, cast_indices
    )


def _full_indices(to: Expansion, indices: str, axis: int, size: int) -> str:
    """Return, for each index along an axis, the full index of its element."""
    shape = to.type(indices).shape
    along_axis = to.reshaped(_from_start(to, indices, (size,)), (*shape, 1))
    if along_axis in to.constants:
        along_axis = to.constant(to.constants[along_axis].reshape(*shape, 1), "places")
    columns = [
        along_axis
        if other == axis
        else to.constant(np.indices(shape, np.int32)[other][..., None], "own")
        for other in range(len(shape))
    ]
    if len(columns) == 1:
        return along_axis
    return to.add("concat", *columns, attributes=Concat(len(shape)))


@expands("gather")
def gather(to: Expansion) -> bool:
    """gather with indices from the start."""
    attributes, x = to.attributes(Gather), to.type(to.input(0))
    if not attributes.from_end:
        return False
    indices = _from_start(to, to.input(1), x.shape[attributes.axis : attributes.axis + 1])
    indices = to.reshaped(indices, to.type(to.input(1)).shape)
    attributes = replace(attributes, from_end=False)
    return to.give("gather", to.input(0), indices, attributes=attributes)


@expands("gather_nd")
def gather_nd(to: Expansion) -> bool:
    """gather_nd with indices from the start."""
    if not to.attributes(GatherNd).from_end:
        return False
    sizes = to.type(to.input(0)).shape[: to.type(to.input(1)).channels]
    indices = _from_start(to, to.input(1), sizes)
    return to.give("gather_nd", to.input(0), indices, attributes=GatherNd())


@expands("gather_elements")
def gather_elements(to: Expansion) -> bool:
    """gather_nd."""
    axis, x = to.attributes(GatherElements).axis, to.type(to.input(0))
    full = _full_indices(to, to.input(1), axis, x.shape[axis])
    return to.give("gather_nd", to.input(0), full, attributes=GatherNd())


@expands("scatter_elements")
def scatter_elements(to: Expansion) -> bool:
    """scatter_nd with full indices."""
    a, x = to.attributes(ScatterElements), to.type(to.input(0))
    if a.reduction not in _REDUCTIONS:
        return False
    full = _full_indices(to, to.input(1), a.axis, x.shape[a.axis])
    return _update(to, full, a.reduction)


@expands("scatter_update")
def scatter_update(to: Expansion) -> bool:
    """scatter_nd into zeros, and a select or add with the previous values."""
    a, x = to.attributes(ScatterUpdate), to.type(to.input(0))
    depth = to.type(to.input(1)).channels
    if a.reduction not in _REDUCTIONS or depth == 0:
        return False
    return _update(to, _from_start(to, to.input(1), x.shape[:depth]), a.reduction)


def _update(to: Expansion, indices: str, reduction: str) -> bool:
    x, updates = to.input(0), to.input(2)
    shape = to.type(x).shape
    into = ScatterNd(shape)
    if reduction == "add":
        return to.give("add", x, to.add("scatter_nd", indices, updates, attributes=into))
    ones = to.constant(np.ones(to.type(updates).shape, np.int32), "ones")
    hits = to.add("scatter_nd", indices, ones, attributes=into)
    new = to.add("scatter_nd", indices, updates, attributes=into)
    return to.give("select", to.add("greater", hits, to.number(0, hits)), new, x)
