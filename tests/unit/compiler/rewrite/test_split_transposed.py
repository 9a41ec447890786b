"""split_transposed: a transposed convolution whose filters do not overlap is a product."""

from __future__ import annotations

import pytest
from random_graphs import assert_rewrites, brief, build

from fourfold.compiler.rewrite.split_transposed import split_transposed

HEAD = """
    input x: f32[2,5,3,7]
    const w: f32[5,2,2,7]
    const b: f32[5]
    const wide: f32[5,3,3,7]
    const c: f32[5]
"""
ALIKE = "stride=(2, 2), padding=Padding(), size=(10, 6)"
STAYS = {
    "an overlap": "y = transpose_conv2d(x, wide, b; stride=(2, 2), padding=Padding(0, 1, 0, 1), "
    "size=(10, 6))",
    "padding": "y = transpose_conv2d(x, w, b; stride=(2, 2), padding=Padding(1, 1, 0, 0), "
    "size=(8, 6))",
}


def test_splitting() -> None:
    before = f"{HEAD}\ny = transpose_conv2d(x, w, b; {ALIKE})\noutput y"
    after = ("y/blocks = conv2d(x, w/blocks, b/blocks)", "y = depth_to_space(y/blocks; size=2)")
    assert_rewrites(split_transposed, before, *after)


def test_pointwise_nodes_go_first() -> None:
    lines = f"a = transpose_conv2d(x, w, -; {ALIKE})\nr = relu(a)\ns = tanh(r)\ny = mul(s, c)"
    after = (
        "a/blocks = conv2d(x, w/blocks)",
        "r/blocks = relu(a/blocks)",
        "s/blocks = tanh(r/blocks)",
        "s = depth_to_space(s/blocks; size=2)",
        "y = mul(s, c)",
    )
    assert_rewrites(split_transposed, f"{HEAD}\n{lines}\noutput y", *after)


@pytest.mark.parametrize("name", STAYS)
def test_keeps_other_convolutions(name: str) -> None:
    graph = build(f"{HEAD}\n{STAYS[name]}\noutput y")
    assert brief(split_transposed(graph)) == brief(graph)
