"""fuse_diamonds: pointwise nodes that branch and join again become one."""

from __future__ import annotations

import pytest
from random_graphs import assert_equal, assert_rewrites, brief, build

from fourfold.compiler.rewrite.check_graph import check
from fourfold.compiler.rewrite.fuse_diamonds import fuse_diamonds
from fourfold.compiler.rewrite.fuse_pointwise import fuse_pointwise
from fourfold.graph import Graph

HEAD = """
    input x: f32[1,4,4,3]
    const w: f32[3,1,1,3]
    const c: f32[3]
"""
CONV = "a = conv2d(x, w, -)"
JOINS = {
    "swish": (
        ("s = logistic(a)", "y = mul(a, s)"),
        "y = conv2d(x, w, -) |> formula(terms=(logistic(0), mul(0, 1)))",
    ),
    "a longer way": (
        ("s = mul(a, c)", "t = logistic(s)", "y = mul(t, a)"),
        "y = conv2d(x, w, -) |> formula(c; terms=(mul(0, 1), logistic(2), mul(3, 0)))",
    ),
    "three ways": (
        ("s = tanh(a)", "t = exp(a)", "u = add(s, t)", "y = mul(u, a)"),
        "y = conv2d(x, w, -) |> "
        "formula(terms=(tanh(0), exp(0), add(1, 2), mul(3, 0)))",
    ),
    "what follows is a tail": (
        ("s = logistic(a)", "m = mul(a, s)", "n = add(m, x)", "y = relu(n)"),
        "y = conv2d(x, w, -) |> formula(terms=(logistic(0), mul(0, 1))) |> add(x) |> relu",
    ),
    "a choice": (
        ("s = less(a, c)", "t = exp(a)", "y = select(s, t, a)"),
        "y = conv2d(x, w, -) |> formula(c; terms=(less(0, 1), exp(0), select(2, 3, 0)))",
    ),
}  # fmt: skip
STAYS = {
    "they do not meet": ("s = exp(a)", "t = tanh(a)", "y = softmax(t)", "z = conv2d(s, w, -)"),
    "another op between": ("s = softmax(a)", "y = mul(a, s)"),
    "one reader": ("s = exp(a)", "y = tanh(s)"),
    "other shapes": ("m = mean(a; axes=(1, 2), keep_dims=True)", "y = sub(a, m)"),
}


def fuse(graph: Graph) -> Graph:
    return fuse_pointwise(fuse_diamonds(graph))


@pytest.mark.parametrize("name", JOINS)
def test_joining(name: str) -> None:
    lines, after = JOINS[name]
    assert_rewrites(fuse, "\n".join([HEAD, CONV, *lines, "output y"]), after)


@pytest.mark.parametrize("name", STAYS)
def test_keeps_other_nodes(name: str) -> None:
    outputs = "output y, z" if "z =" in STAYS[name][-1] else "output y"
    graph = build("\n".join([HEAD, CONV, *STAYS[name], outputs]))
    assert brief(fuse_diamonds(graph)) == brief(graph)


@pytest.mark.parametrize("also", ["a", "s"])
def test_output_is_stored(also: str) -> None:
    graph = build(f"{HEAD}\n{CONV}\ns = logistic(a)\ny = mul(a, s)\noutput y, {also}")
    assert brief(fuse_diamonds(graph)) == brief(graph)


def test_diamonds_that_share_nodes() -> None:
    """A rotation: both products of each value go where those of the other go."""
    values = ("a = conv2d(x, w, -)", "b = conv2d(x, v, -)")
    products = ("p = mul(a, c)", "q = mul(b, s)", "r = mul(b, c)", "t = mul(a, s)")
    lines = (*values, *products, "d = sub(p, q)", "e = add(r, t)", "y = add(d, e)", "output y")
    constants = "const v: f32[3,1,1,3]\nconst s: f32[3]"
    graph = build("\n".join([HEAD, constants, *lines]))
    after = fuse_diamonds(graph)
    check(after)
    assert_equal(graph, after)
    assert [node.op for node in after.nodes] == ["conv2d", "conv2d", "formula"]
    assert brief(fuse_diamonds(after)) == brief(after)
