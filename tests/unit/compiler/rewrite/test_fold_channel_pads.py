"""fold_channel_pads: an addition reads the input of a pad directly."""

from __future__ import annotations

import pytest
from random_graphs import assert_rewrites, brief, build

from fourfold.compiler.rewrite.fold_channel_pads import fold_channel_pads

HEAD = """
    input x: f32[1,3,5,3]
    input a: f32[1,3,5,7]
    input one: f32[1,3,5,1]
    const c: f32[7]
"""
PAD = "p = pad(x; before=(0, 0, 0, 0), after=(0, 0, 0, 4))"
FOLDS = {
    "second": (("y = add(a, p)",), ("y = add_channels(a, x)",)),
    "first": (("y = add(p, a)",), ("y = add_channels(a, x)",)),
    "two": (
        ("b = add(p, a)", "y = add(b, p)"),
        ("b = add_channels(a, x)", "y = add_channels(b, x)"),
    ),
}
STAYS = {
    "not an addition": (PAD, "y = mul(a, p)"),
    "one of two readers": (PAD, "b = relu(p)", "y = add(b, p)"),
    "a smaller operand": (PAD, "y = add(p, c)"),
    "with itself": (PAD, "y = add(p, p)"),
    "ones around": (PAD[:-1] + ", value=1.0)", "y = add(a, p)"),
    "before": ("p = pad(x; before=(0, 0, 0, 4), after=(0, 0, 0, 0))", "y = add(a, p)"),
    "one channel": ("p = pad(one; before=(0, 0, 0, 0), after=(0, 0, 0, 6))", "y = add(a, p)"),
}  # fmt: skip


@pytest.mark.parametrize("name", FOLDS)
def test_folding(name: str) -> None:
    before, after = FOLDS[name]
    assert_rewrites(fold_channel_pads, "\n".join([HEAD, PAD, *before, "output y"]), *after)


@pytest.mark.parametrize("name", STAYS)
def test_keeps_pads_that_cannot_be_folded(name: str) -> None:
    graph = build("\n".join([HEAD, *STAYS[name], "output y"]))
    assert brief(fold_channel_pads(graph)) == brief(graph)


def test_a_pad_that_is_an_output_stays() -> None:
    graph = build(f"{HEAD}\n{PAD}\ny = add(a, p)\noutput y, p")
    assert brief(fold_channel_pads(graph)) == brief(graph)
