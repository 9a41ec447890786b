"""fold_scales: scales and shifts per channel are folded into the weights and bias before them."""

from __future__ import annotations

import pytest
from random_graphs import assert_rewrites, brief, build

from fourfold.compiler.rewrite import _names
from fourfold.compiler.rewrite.fold_scales import fold_scales

SUMS = {
    "conv2d": ("f32[1,5,5,3]", "f32[4,3,3,3]", ""),
    "depthwise_conv2d": ("f32[1,5,5,4]", "f32[1,3,3,4]", ""),
    "fully_connected": ("f32[2,5,3]", "f32[4,3]", ""),
    "transpose_conv2d": (
        "f32[1,3,3,5]",
        "f32[4,2,2,5]",
        "; stride=(2, 2), padding=Padding(), size=(6, 6)",
    ),
}
BEFORE = """
    input x: {0}
    const w: {1}
    const b: f32[4]
    const c: f32[4]
    const s: f32[] = 2
    a = {2}(x, w, {3}{4})
    {5}
    output y{6}
"""


def scaled(reader: str, op: str = "conv2d", bias: str = "b", more: str = "") -> str:
    x, weights, settings = SUMS[op]
    return BEFORE.format(x, weights, op, bias, settings, reader, more)


@pytest.mark.parametrize("op", SUMS)
@pytest.mark.parametrize(
    "reader", ["mul(a, c)", "mul(s, a)", "sub(c, a)", "div(a, c)", "negate(a)"]
)
def test_factors_change_weights_and_bias(op: str, reader: str) -> None:
    graph = fold_scales(build(scaled(f"y = {reader}", op)))
    assert [node.inputs for node in graph.nodes] == [("x", "w/scaled", "b/shifted")]
    assert_rewrites(fold_scales, scaled(f"y = {reader}", op), *brief(graph))


@pytest.mark.parametrize("reader", ["add(a, c)", "add(s, a)", "sub(a, c)"])
def test_terms_change_the_bias(reader: str) -> None:
    graph = fold_scales(build(scaled(f"y = {reader}")))
    assert brief(graph) == ["y = conv2d(x, w, b/shifted)"]
    assert_rewrites(fold_scales, scaled(f"y = {reader}"), *brief(graph))


def test_a_missing_bias_is_made_where_one_is_needed() -> None:
    assert_rewrites(fold_scales, scaled("y = add(a, c)", bias="-"), "y = conv2d(x, w, a/shifted)")
    assert_rewrites(fold_scales, scaled("y = mul(a, c)", bias="-"), "y = conv2d(x, w/scaled, -)")


def test_folds_chains() -> None:
    chain = "m = mul(a, c)\nn = add(m, c)\nr = relu(n)\ny = mul(r, c)"
    assert_rewrites(
        fold_scales,
        scaled(chain),
        "n = conv2d(x, w/scaled, b/shifted:1)",
        "r = relu(n)",
        "y = mul(r, c)",
    )


@pytest.mark.parametrize(
    "text",
    [
        scaled("y = mul(a, a)"),
        scaled("y = div(c, a)"),
        scaled("y = mul(a, c)", more=", a"),
        scaled("z = relu(a)\ny = mul(a, c)", more=", z"),
        scaled("const p: f32[3,1] \n y = mul(a, p)"),
        scaled("const p: f32[4] = 0\n y = div(a, p)"),
        scaled("const p: f32[4] = 1e39\n y = mul(a, p)"),
        scaled("const p: f32[2,1,1,4]\n y = mul(a, p)"),
        scaled("y = mul(a, x)", "depthwise_conv2d").replace("3,3,4]", "1,1,4]"),
    ],
)
@pytest.mark.filterwarnings("ignore:overflow")
def test_keeps_other_scales(text: str) -> None:
    graph = build(text)
    assert brief(fold_scales(graph)) == brief(graph)


def test_shared_weights_are_scaled_within_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """The weights have 432 bytes, and each scaled copy needs as many."""
    monkeypatch.setattr(_names, "FREE_BYTES", 0)
    lines = ["input x: f32[1,5,5,3]", "const w: f32[4,3,3,3]", "const c: f32[4]"]
    for number in range(10):
        lines += [f"a{number} = conv2d(x, w)", f"y{number} = mul(a{number}, c)"]
    names = ", ".join(f"y{number}" for number in range(10))
    graph = fold_scales(build("\n".join([*lines, f"output {names}"])))
    assert sum(node.op == "mul" for node in graph.nodes) == 10 - 2
