"""Exact results computed a few rows at a time equal those of the whole, for every op and
measure.
"""

from __future__ import annotations

from dataclasses import astuple

import numpy as np
import pytest
from op_inputs import case_graph

from fourfold.graph import Graph, Node
from fourfold.ops.base import registry
from fourfold.ops.base.window import Padding
from fourfold.ops.conv2d import Conv2d
from fourfold.ops.fake_quantize import FakeQuantize
from fourfold.tools.report.compare import CHUNK_ELEMENTS, Differences, deviation
from fourfold.tools.report.exact import ExactGraph, StepsBeforeRounding
from fourfold.tools.report.exact_rows import SLAB_ELEMENTS, RowRange, needed_rows, slabs
from fourfold.tools.report.rounding import RoundingNoise
from fourfold.types import DType, TensorType

OPS = sorted(name for name, op in registry().items() if op.cases)
BY_ROWS = {"conv2d", "depthwise_conv2d", "average_pool2d", "max_pool2d", "max_pool2d_index"}


@pytest.mark.parametrize("name", OPS)
def test_rows_of_every_op_are_those_of_the_whole(name: str) -> None:
    op = registry()[name]
    graph, every = case_graph(op, op.cases)
    for node, arrays in zip(graph.nodes, every, strict=True):
        given = dict(zip(node.inputs, arrays, strict=True))
        shape = graph.types[node.outputs[0]].shape
        if len(shape) != 4 or shape[1] < 2 or graph.types[node.outputs[0]].dtype is DType.STRING:
            continue
        whole = ExactGraph(graph, given.get).value(node.outputs[0])
        by_rows = ExactGraph(graph, given.get)
        for first in range(0, shape[1], 2):
            rows = RowRange(first, min(first + 2, shape[1]))
            found = by_rows.value(node.outputs[0], rows)
            np.testing.assert_allclose(found, whole[:, first : rows.end], rtol=1e-12, atol=1e-12)


def test_windows_and_pointwise_ops_need_some_rows_only() -> None:
    pointwise = {name for name in OPS if registry()[name].pointwise is not None}
    for name in (BY_ROWS | pointwise | {"concat"}) & {*OPS}:
        graph, _ = case_graph(registry()[name], registry()[name].cases)
        shapes = [
            [None if one is None else graph.types[one].shape for one in node.inputs]
            for node in graph.nodes
        ]
        for node, inputs in zip(graph.nodes, shapes, strict=True):
            result = graph.types[node.outputs[0]].shape
            along_rows = getattr(node.attributes, "axis", 3) in (1, -3)
            if len(result) == 4 and result[1] > 1 and not along_rows:
                assert needed_rows(node, inputs, result, RowRange(0, 1)) is not None, node


def test_a_chain_to_a_rounding_is_the_same_by_rows() -> None:
    """Return a graph with two readers of a value, one of them through a window with a stride."""
    types = {"x": "i8[2,23,5,3]", "r": "f32[2,23,5,3]", "s": "f32[2,23,5,3]", "y": "f32[2,12,3,4]"}
    generator = np.random.default_rng(3)
    weights = generator.normal(0, 1, (4, 3, 3, 3)).astype(np.float32)
    graph = Graph(
        nodes=(
            Node("cast", ("x",), ("r",), registry()["cast"].attributes(DType.F32)),
            Node("mul", ("r", "r"), ("s",)),
            Node("conv2d", ("s", "w"), ("c",), Conv2d((2, 2), padding=Padding(1, 1, 1, 1))),
            Node("fake_quantize", ("c",), ("y",), FakeQuantize(0.5, -128, 127)),
        ),
        inputs=("x",),
        outputs=("y",),
        types={name: TensorType.parse(text) for name, text in (types | {"c": types["y"]}).items()}
        | {"w": TensorType.of(weights)},
        constants={"w": weights},
    )
    given = {"x": generator.integers(-9, 9, (2, 23, 5, 3)).astype(np.int8)}
    whole = ExactGraph(graph, given.get).before_rounding("y")
    assert whole is not None
    by_rows = ExactGraph(graph, given.get)
    for rows in (RowRange(0, 5), RowRange(5, 11), RowRange(11, 12)):
        part = by_rows.before_rounding("y", rows)
        assert part is not None
        np.testing.assert_allclose(part.steps, whole.steps[:, rows.first : rows.end], rtol=1e-12)


def test_slabs_cover_large_pictures_once_and_leave_small_values_whole() -> None:
    shape = (1, 1000, 64, 32)
    found = [rows for rows in slabs(shape) if rows is not None]
    assert [row for rows in found for row in range(*rows)] == list(range(1000))
    assert max(rows.end - rows.first for rows in found) * 64 * 32 <= SLAB_ELEMENTS
    assert [*slabs((1, 10, 64, 32))] == [*slabs((2**20,))] == [None]


def test_differences_in_parts_are_those_of_the_whole() -> None:
    generator = np.random.default_rng(4)
    theirs = generator.normal(0, 1, (CHUNK_ELEMENTS // 16, 33)).astype(np.float32)
    ours = theirs + generator.normal(0, 1e-3, theirs.shape).astype(np.float32)
    ours[-1, 2], ours[1, 3], theirs[3, 4] = np.nan, np.inf, 7e4
    whole = Differences()
    whole.add(ours, theirs)
    found = deviation(ours, theirs)
    assert astuple(found) == pytest.approx(astuple(whole.deviation()))
    assert (found.nan, found.infinite, found.beyond_half) == (1, 1, 1)


@pytest.mark.parametrize("slope", [0.0, 1 / 127])
def test_noise_in_parts_is_judged_as_the_whole(slope: float) -> None:
    generator = np.random.default_rng(5)
    steps = generator.uniform(-60, 60, (1, 300, 40, 16))
    stored = np.rint(steps * (1 + slope) + generator.uniform(-0.2, 0.2, steps.shape))
    noise = RoundingNoise(steps.size)
    for first in range(0, 300, 7):
        rows = slice(first, first + 7)
        noise.add(stored[:, rows], StepsBeforeRounding(steps[:, rows], 1.0, -128, 127))
    assert noise.is_rounding() == (slope == 0)
    assert noise.most == pytest.approx(np.abs(stored - steps).max())


@pytest.mark.parametrize("coarse", [1.0, 1 / 0.9976])
def test_the_files_own_factor_is_no_fault_where_the_coarse_one_is_taken(coarse: float) -> None:
    """Requantize as LiteRT's reference kernels do: round to half steps, then away from zero."""
    true = np.arange(0, 250, 1.0).reshape(-1, 1) * 0.42287
    stored = np.floor(np.rint(true * 2) / 2 + 0.5)
    exact = StepsBeforeRounding(true * 0.9976, 1.0, 0, 255, coarse)
    noise = RoundingNoise(true.size)
    noise.add(stored, exact)
    assert noise.is_rounding() == (coarse != 1)


def test_nan_is_never_blamed_on_rounding() -> None:
    exact = StepsBeforeRounding(np.zeros((4, 2)), 1.0, -128, 127)
    noise = RoundingNoise(16)
    noise.add(np.full((4, 2), np.nan), exact)
    noise.add(np.zeros((4, 2)), exact)
    assert not noise.is_rounding()
