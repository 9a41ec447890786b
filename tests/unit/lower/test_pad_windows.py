"""Pads before convolutions: where a CPU would meet edges, once for each input, and nowhere else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from random_graphs import brief, build

from fourfold.cpu.reference import evaluate
from fourfold.lower.pad_windows import pad_windows
from fourfold.players.null import NULL_GPU

CPU = replace(NULL_GPU, kind="cpu")
GRAPH = """
input x: f32[1,7,9,8]
const w: f32[4,3,3,8]
const v: f32[8,3,3,8]
a = conv2d(x, w; padding=Padding(1,1,1,1)) |> relu
b = conv2d(x, v; padding=Padding(1,1,1,1))
output a, b
"""


def test_one_pad_serves_all_that_need_it() -> None:
    graph = pad_windows(build(GRAPH), CPU)
    assert [node.op for node in graph.nodes] == ["pad", "conv2d", "conv2d"]
    assert brief(graph)[1].startswith("a = conv2d(x/padded, w")
    assert graph.types["x/padded"].shape == (1, 9, 11, 8)


def test_the_result_is_the_same() -> None:
    before = build(GRAPH)
    x = {"x": np.random.default_rng(0).uniform(-1, 1, (1, 7, 9, 8)).astype(np.float32)}
    one, other = evaluate(before, x), evaluate(pad_windows(before, CPU), x)
    for name in before.outputs:
        np.testing.assert_array_equal(one[name], other[name])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("padding=Padding(1,1,1,1)", "stride=(1,1)"),  # nothing to pad
        ("f32[1,7,9,8]", "f32[1,7,200,8]"),  # few pixels of a row are near an edge
    ],
)
def test_what_gains_nothing_stays(old: str, new: str) -> None:
    graph = build(GRAPH.replace(old, new))
    assert pad_windows(graph, CPU) is graph


def test_a_gpu_needs_none() -> None:
    graph = build(GRAPH)
    assert pad_windows(graph, NULL_GPU) is graph
