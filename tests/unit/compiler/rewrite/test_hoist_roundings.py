"""hoist_roundings: values are rounded before they are joined, if sums multiply them."""

from __future__ import annotations

import pytest
from random_graphs import assert_rewrites, build

from fourfold.compiler.rewrite.hoist_roundings import hoist_roundings

TEXT = """
    input x: f32[1,5,7,4]
    input z: f32[1,5,7,4]
    const w: f32[3,1,1,8]
    a = fake_quantize(x; scale=0.5, low=-9, high=9)
    b = {other}
    c = concat(a, b; axis=3)
    d = fake_quantize(c; scale=0.25, low=-128, high=127)
    y = {reader}
    output y
"""
ROUNDED = "fake_quantize(z; scale=0.125, low=-9, high=9)"
READ = "conv2d(d, w)"


def test_join_inputs_are_on_the_output_grid() -> None:
    grid = "scale=0.25, low=-128, high=127"
    assert_rewrites(
        hoist_roundings,
        TEXT.format(other=ROUNDED, reader="conv2d(d, w)"),
        "a = fake_quantize(x; scale=0.5, low=-9, high=9)",
        "b = fake_quantize(z; scale=0.125, low=-9, high=9)",
        "c = concat(a, b; axis=3)",
        f"a/rounded = fake_quantize(a; {grid})",
        f"b/rounded = fake_quantize(b; {grid})",
        "d = concat(a/rounded, b/rounded; axis=3)",
        "y = conv2d(d, w)",
    )


@pytest.mark.parametrize(
    ("other", "reader"), [("relu(z)", READ), (ROUNDED, "softmax(d)"), (ROUNDED, "add(d, c)")]
)
def test_keeps_other_roundings(other: str, reader: str) -> None:
    graph = build(TEXT.format(other=other, reader=reader))
    assert str(hoist_roundings(graph)) == str(graph)


def test_sums_may_read_it_in_another_order() -> None:
    reader = """reshape(d; shape=(1, 35, 1, 8))
    v = conv2d(y, w)
    output v"""
    ops = [
        node.op for node in hoist_roundings(build(TEXT.format(other=ROUNDED, reader=reader))).nodes
    ]
    assert ops[3:6] == ["fake_quantize", "fake_quantize", "concat"]
