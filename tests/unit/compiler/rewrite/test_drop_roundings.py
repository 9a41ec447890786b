"""drop_roundings: values on a grid are not rounded to it again."""

from __future__ import annotations

import pytest
from random_graphs import build

from fourfold.compiler.rewrite.drop_roundings import drop_roundings

TEXT = """
    input x: f32[1,6,8,4]
    const i: i32[3]
    a = fake_quantize(x; scale=0.5, low=-9, high=9)
    b = {}
    c = fake_quantize(b; scale={}, low={}, high=9, pivot={})
    y = tanh(c)
    output y
"""
PICKS = {
    "max_pool2d": "max_pool2d(a; filter=(2,2), stride=(2,2), padding=Padding(0,0,0,0))",
    "reshape": "reshape(a; shape=(1,48,4))",
    "transpose": "transpose(a; permutation=(0,3,1,2))",
    "resize_nearest": "resize_nearest(a; size=(3,4))",
    "pad": "pad(a; before=(0,1,1,0), after=(0,1,1,0), value=0.0)",
    "concat": "concat(a, a; axis=3)",
    "slice": "slice(a; begin=(0,0,0,1), size=(1,6,8,2), strides=(1,1,1,1))",
}


def ops(text: str) -> list[str]:
    return [node.op for node in drop_roundings(build(text)).nodes]


@pytest.mark.parametrize("pick", PICKS)
def test_drops_rounding_of_picked_values(pick: str) -> None:
    assert ops(TEXT.format(PICKS[pick], 0.5, -9, None)) == ["fake_quantize", pick, "tanh"]


@pytest.mark.parametrize(
    ("made", "scale", "low", "pivot"),
    [
        (PICKS["max_pool2d"], 0.25, -9, None),
        (PICKS["max_pool2d"], 0.5, -8, None),
        (PICKS["max_pool2d"], 0.5, -9, 0),
        ("average_pool2d(a; filter=(2,2), stride=(2,2), padding=Padding(0,0,0,0))", 0.5, -9, None),
        ("pad(a; before=(0,1,1,0), after=(0,1,1,0), value=0.3)", 0.5, -9, None),
        ("exp(a)", 0.5, -9, None),
    ],
)
def test_keeps_rounding_of_other_values(
    made: str, scale: float, low: int, pivot: int | None
) -> None:
    assert ops(TEXT.format(made, scale, low, pivot))[2] == "fake_quantize"
