"""fold_dilation: a convolution between blocks of a batch becomes a dilated convolution."""

from __future__ import annotations

import pytest
from random_graphs import assert_rewrites, brief, build

from fourfold.compiler.rewrite.fold_dilation import fold_dilation

BEFORE = """
    input x: f32[2,9,10,4]
    const w: f32[5,3,3,4]
    const d: f32[1,3,3,4]
    const b: f32[5]
    a = negate(x)
    s = space_to_batch(a; block=(2, 3), before={0}, after={1})
    {2}
    y = batch_to_space({3}; block=(2, 3), before=(0, 0), after={4})
    output y{5}
"""
CONV = "c = conv2d(s, w, -)"
PADS = ("(2, 3)", "(3, 5)")


def blocks(
    middle: str = CONV,
    last: str = "c",
    pads: tuple[str, str] = PADS,
    cut: str = "(1, 2)",
    more: str = "",
) -> str:
    return BEFORE.format(*pads, middle, last, cut, more)


def test_convolution_becomes_dilated() -> None:
    assert_rewrites(
        fold_dilation,
        blocks(),
        "a = negate(x)",
        "y = conv2d(a, w, -; dilation=(2, 3), padding=Padding(top=2, bottom=2, left=3, right=3))",
    )


def test_pointwise_ops_follow_the_convolution() -> None:
    assert_rewrites(
        fold_dilation,
        blocks(f"{CONV}\ne = add(c, b)\nr = relu6(e)", "r"),
        "a = negate(x)",
        "c = conv2d(a, w, -; dilation=(2, 3), padding=Padding(top=2, bottom=2, left=3, right=3))",
        "e = add(c, b)",
        "y = relu6(e)",
    )


def test_a_depthwise_convolution() -> None:
    assert_rewrites(
        fold_dilation,
        blocks("c = depthwise_conv2d(s, d, -)"),
        "a = negate(x)",
        "y = depthwise_conv2d(a, d, -; dilation=(2, 3), "
        "padding=Padding(top=2, bottom=2, left=3, right=3))",
    )


@pytest.mark.parametrize(
    "text",
    [
        blocks("c = conv2d(s, w, -; padding=Padding(1, 1, 1, 1))"),
        blocks(pads=("(2, 3)", "(3, 2)"), cut="(1, 4)"),
        blocks(more=", c"),
        blocks(f"{CONV}\nz = negate(s)", more=", z"),
        blocks("c = negate(s)"),
        blocks(f"{CONV}\nr = softmax(c)", "r"),
    ],
)
def test_keeps_nodes_if_the_result_would_change(text: str) -> None:
    graph = build(text)
    assert brief(fold_dilation(graph)) == brief(graph)
