"""merge_pads: zeros around an image become the padding of its reader, where that is correct."""

from __future__ import annotations

import pytest
from random_graphs import assert_rewrites, brief, build

from fourfold.compiler.rewrite.merge_pads import merge_pads

BEFORE = """
    input x: f32[1,7,8,4]
    const w: f32[5,3,3,4]
    const d: f32[1,3,3,4]
    a = {0}(x)
    p = pad(a; before={1}, after={2}, value={3})
    {4}
    output y{5}
"""
CONV = "y = conv2d(p, w, -; stride=(2, 2), padding=Padding(1, 0, 0, 1))"
POOL = "y = max_pool2d(p; filter=(3, 3), stride=(2, 2), padding=Padding(0, 0, 0, 0))"
MEAN = POOL.replace("max", "average")
AROUND = ("(0, 1, 2, 0)", "(0, 2, 1, 0)")


def padded(
    reader: str = CONV,
    op: str = "relu",
    pads: tuple[str, str] = AROUND,
    value: str = "0.0",
    more: str = "",
) -> str:
    return BEFORE.format(op, *pads, value, reader, more)


def test_a_convolution_pads_for_itself() -> None:
    assert_rewrites(
        merge_pads,
        padded(op="negate"),
        "a = negate(x)",
        "y = conv2d(a, w, -; stride=(2, 2), padding=Padding(top=2, bottom=2, left=2, right=2))",
    )


def test_a_depthwise_convolution_and_a_second_reader() -> None:
    assert_rewrites(
        merge_pads,
        padded(f"{CONV}\nz = depthwise_conv2d(p, d, -)", more=", z"),
        "a = relu(x)",
        "y = conv2d(a, w, -; stride=(2, 2), padding=Padding(top=2, bottom=2, left=2, right=2))",
        "z = depthwise_conv2d(a, d, -; padding=Padding(top=1, bottom=2, left=2, right=1))",
    )


def test_pads_of_pads_add_up() -> None:
    again = "q = pad(p; before=(0, 1, 0, 0), after=(0, 0, 0, 0))\ny = conv2d(q, w, -)"
    assert_rewrites(
        merge_pads,
        padded(again),
        "a = relu(x)",
        "y = conv2d(a, w, -; padding=Padding(top=2, bottom=2, left=2, right=1))",
    )


@pytest.mark.parametrize(
    ("op", "value"), [("relu", "0.0"), ("logistic", "0.0"), ("negate", "-3.5e38")]
)
def test_a_max_pool_ignores_padding_that_cannot_win(op: str, value: str) -> None:
    assert_rewrites(
        merge_pads,
        padded(POOL, op, value=value),
        f"a = {op}(x)",
        "y = max_pool2d(a; filter=(3, 3), stride=(2, 2), "
        "padding=Padding(top=1, bottom=2, left=2, right=1))",
    )


@pytest.mark.parametrize(
    "text",
    [
        padded(value="1.0"),
        padded(pads=("(0, 1, 1, 0)", "(1, 0, 0, 0)")),
        padded(more=", p"),
        padded(f"{CONV}\nz = negate(p)", more=", z"),
        padded(POOL, "negate"),
        padded(POOL, "relu", ("(0, 3, 0, 0)", "(0, 0, 0, 0)")),
        padded(MEAN),
    ],
)
def test_keeps_pads_if_the_result_would_change(text: str) -> None:
    graph = build(text)
    assert brief(merge_pads(graph)) == brief(graph)
