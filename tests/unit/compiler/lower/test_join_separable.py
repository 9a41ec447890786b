"""Joined depthwise and pointwise layers: only where that is faster."""

from __future__ import annotations

import numpy as np
import pytest
from fake_devices import TENSOR_CORES, target_of
from random_graphs import build

from fourfold.backends.cpu.reference import evaluate
from fourfold.backends.null import NULL_GPU
from fourfold.codegen.context import KernelOptions
from fourfold.compiler.lower.join_nodes import join_separable

MIXED = KernelOptions("mixed")
PAIR = """
input x: f32[1,29,31,32]
const f: f32[1,3,3,32]
const g: f32[32]
const w: f32[24,1,1,32]
const b: f32[24]
m = depthwise_conv2d(x, f, g; stride=(2,2), padding=Padding(1,1,1,1)) |> relu6
y = conv2d(m, w, b) |> relu
"""


def ops(text: str, options: KernelOptions = MIXED) -> list[str]:
    return [node.op for node in join_separable(build(text), target_of(TENSOR_CORES, options)).nodes]


def test_the_result_is_the_same() -> None:
    before = build(PAIR + "output y")
    after = join_separable(before, target_of(TENSOR_CORES, MIXED))
    assert [node.op for node in after.nodes] == ["separable_conv2d"]
    x = {"x": np.random.default_rng(0).uniform(-9, 9, (1, 29, 31, 32)).astype(np.float32)}
    one, other = evaluate(before, x)["y"], evaluate(after, x)["y"]
    np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-5)
    assert one.max() > 0


@pytest.mark.parametrize(
    "change",
    [
        ("output y", "output y, m"),  # another reader of the value between them
        ("|> relu6", "|> logistic"),  # not a clamp
        ("conv2d(m, w, b)", "conv2d(m, w, b; padding=Padding(1,1,1,1))"),
        ("f32[24,1,1,32]", "f32[24,3,3,32]"),
        ("f32[1,3,3,32]", "f32[1,5,5,32]"),  # too many taps
    ],
)
def test_pairs_that_stay_separate(change: tuple[str, str]) -> None:
    assert "separable_conv2d" not in ops((PAIR + "output y").replace(*change))


def test_other_devices_and_precisions_keep_pairs_separate() -> None:
    graph = build(PAIR + "output y")
    assert join_separable(graph, target_of(NULL_GPU, MIXED)) == graph
    assert join_separable(graph, target_of(TENSOR_CORES)) == graph


def test_many_outputs_are_worth_it_where_there_are_many_pixels() -> None:
    large = PAIR.replace("29,31,32]", "56,56,128]").replace("3,3,32]", "3,3,128]")
    large = large.replace("const g: f32[32]", "const g: f32[128]").replace("1,1,32]", "1,1,128]")
    large = large.replace("[24,", "[256,").replace("const b: f32[24]", "const b: f32[256]")
    assert ops(large + "output y") == ["separable_conv2d"]


def test_many_channels_cost_more_than_a_stage() -> None:
    wide = PAIR.replace("29,31,32]", "7,7,960]").replace("3,3,32]", "3,3,960]")
    wide = wide.replace("const g: f32[32]", "const g: f32[960]").replace("1,1,32]", "1,1,960]")
    assert ops(wide + "output y") == ["depthwise_conv2d", "conv2d"]
