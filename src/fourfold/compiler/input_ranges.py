"""Ranges of pixels that the first operators of a model show: a rescaling, or a quantization."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import numpy as np

from fourfold.formats import Model
from fourfold.graph import Graph, Node
from fourfold.ops.fake_quantize import FakeQuantize
from fourfold.types import DType

Range = tuple[float, float]
RANGES: tuple[Range, ...] = ((0.0, 255.0), (0.0, 1.0), (-1.0, 1.0))  # that models take pixels in
MAX_STEPS = 8  # operators to follow from an input
MAX_SCALED, MIN_WIDTH = 2.9, 0.9  # largest number and smallest width of what layers take
TOLERANCE = 0.03  # of the width of a range, for grids that were measured on pictures
_PICTURE_CHANNELS = (1, 3, 4)
_PASSING = ("identity", "transpose", "cast", "pad")


class _Affine(NamedTuple):
    """The number that an operator takes: pixel * scale + shift, for all channels or each."""

    scale: np.ndarray
    shift: np.ndarray

    def of(self, pixel: float) -> np.ndarray:
        return np.asarray(pixel * self.scale + self.shift)


def input_ranges(model: Model) -> dict[str, Range]:
    """Return the range of pixels by name, for float pictures whose first operators show it."""
    graph, found = model.main, {}
    for name, value in zip(model.input_names, graph.arguments, strict=True):
        type_ = graph.types[value]
        sizes = (type_.shape[-1], type_.shape[1]) if type_.rank == 4 else ()
        if type_.dtype in (DType.F32, DType.F16) and any(n in _PICTURE_CHANNELS for n in sizes):
            limits = _follow(graph, value)
            if limits is not None:
                found[name] = limits
    return found


def _follow(graph: Graph, value: str) -> Range | None:
    readers: dict[str, list[Node]] = defaultdict(list)
    for node in graph.nodes:
        for name in node.reads:
            readers[name].append(node)
    affine, changed = _Affine(np.ones(1), np.zeros(1)), False
    for _ in range(MAX_STEPS):
        if len(readers[value]) != 1:
            break
        (node,) = readers[value]
        if isinstance(node.attributes, FakeQuantize):
            limits = _grid_range(node.attributes, affine)
            if limits is not None:
                return limits
        elif node.op not in _PASSING:
            following = _apply(graph, node, value, affine)
            if following is None:
                break
            affine, changed = following, True
        value = node.outputs[0]
    return _scaled_range(affine) if changed else None


def _grid_range(grid: FakeQuantize, affine: _Affine) -> Range | None:
    """Return the usual range that a quantization grid covers, if it covers just that."""
    ends = np.array([grid.low, grid.high]) * grid.scale
    if affine.scale.size > 1 or affine.shift.size > 1 or not affine.scale.all():
        return None
    low, high = sorted(float(one) for one in (ends - affine.shift) / affine.scale)
    for start, end in RANGES:
        slack = TOLERANCE * (end - start)
        if abs(low - start) <= slack and abs(high - end) <= slack:
            return start, end
    return None


def _apply(graph: Graph, node: Node, value: str, affine: _Affine) -> _Affine | None:
    """Return the numbers after an operator with a constant; None for any other operator."""
    others = [name for name in node.inputs if name != value]
    constant = graph.constants.get(str(others[0])) if len(node.inputs) == 2 and others else None
    if constant is None or np.asarray(constant).size not in _PICTURE_CHANNELS:
        return None
    number = np.asarray(constant, np.float64).ravel()
    first = node.inputs[0] == value
    scale, shift = affine
    if node.op == "mul":
        return _Affine(scale * number, shift * number)
    if node.op == "add":
        return _Affine(scale, shift + number)
    if node.op == "sub":
        return _Affine(scale, shift - number) if first else _Affine(-scale, number - shift)
    if node.op == "div" and first and number.all():
        return _Affine(scale / number, shift / number)
    return None


def _scaled_range(affine: _Affine) -> Range | None:
    """Return the only range of pixels that the model scales to numbers that layers take."""
    fits = []
    for start, end in RANGES:
        ends = np.stack(np.broadcast_arrays(affine.of(start), affine.of(end)))
        wide = np.ptp(ends, axis=0).min() >= MIN_WIDTH
        if wide and np.abs(ends).max() <= MAX_SCALED:
            fits.append((start, end))
    return fits[0] if len(fits) == 1 else None
