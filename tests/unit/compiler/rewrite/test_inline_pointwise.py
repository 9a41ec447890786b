"""inline_pointwise: a pointwise node with one reader is computed inside that reader."""

from __future__ import annotations

import pytest
from random_graphs import assert_equal, assert_rewrites, build

from fourfold.compiler.rewrite.fuse_pointwise import MAX_TAIL_STEPS
from fourfold.compiler.rewrite.inline_pointwise import inline_pointwise

HEAD = """
    input a: f32[1,4,4,3]
    input b: f32[1,4,4,3]
    input n: i32[1,4,4,3]
    const w: f32[3,1,1,3]
    const c: f32[3]
    const e: f32[3]
"""
CASES = {
    "two branches that meet": (
        ("p = tanh(a)", "y = logistic(b) |> mul(p)"),
        ("y = logistic(b) |> formula(a; terms=(tanh(1), mul(0, 2)))",),
    ),
    "a branch of several ops": (
        ("p = exp(a) |> mul(c) |> add(b)", "y = sub(p, a)"),
        ("y = formula(a, c, b; terms=(exp(0), mul(3, 1), add(4, 2), sub(5, 0)))",),
    ),
    "branches of branches": (
        ("p = tanh(a)", "q = exp(b) |> sub(p)", "y = square(a) |> mul(q)"),
        ("y = square(a) |> formula(b, a; terms=(exp(1), formula(3, 2; "
         "Formula(terms=(tanh(1), sub(0, 2)))), mul(0, 4)))",),
    ),
    "behind a convolution": (
        ("p = tanh(a)", "y = conv2d(b, w, -) |> add(p)"),
        ("y = conv2d(b, w, -) |> formula(a; terms=(tanh(1), add(0, 2)))",),
    ),
    "little work for few numbers": (
        ("p = mul(c, e)", "y = sub(a, p)"),
        ("y = formula(a, c, e; terms=(mul(1, 2), sub(0, 3)))",),
    ),
    "much work for few numbers": (
        ("p = exp(c)", "y = sub(a, p)"),
        ("p = exp(c)", "y = sub(a, p)"),
    ),
    "two readers": (
        ("p = tanh(a)", "q = conv2d(p, w, -)", "y = add(q, p)"),
        ("p = tanh(a)", "q = conv2d(p, w, -)", "y = add(q, p)"),
    ),
    "what a convolution reads": (
        ("p = tanh(a)", "y = conv2d(p, w, -)"),
        ("p = tanh(a)", "y = conv2d(p, w, -)"),
    ),
    "whole numbers are stored": (
        ("p = add(n, n)", "q = cast(p; to=DType.F32)", "y = add(q, a)"),
        ("p = add(n, n)",
         "y = formula(a, p; terms=(cast(1; Cast(to=<DType.F32: 'f32'>)), add(2, 0)))"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_inlining(name: str) -> None:
    before, after = CASES[name]
    assert_rewrites(inline_pointwise, "\n".join([HEAD, *before, "output y"]), *after)


def test_an_output_in_the_middle_is_stored() -> None:
    before = f"{HEAD}\np = tanh(a)\ny = add(b, p)\noutput p, y"
    assert_rewrites(inline_pointwise, before, "p = tanh(a)", "y = add(b, p)")


def test_limits_steps_of_a_kernel() -> None:
    count = 2 * MAX_TAIL_STEPS
    lines = [f"p{i} = exp(a)\nv{i + 1} = add(p{i}, v{i})" for i in range(count)]
    text = "\n".join([HEAD, "v0 = tanh(b)", *lines, f"output v{count}"])
    graph = inline_pointwise(build(text))
    assert_equal(build(text), graph)
    assert 1 < len(graph.nodes) <= 6
    assert str(inline_pointwise(graph)) == str(graph)
