"""find_prelu, find_hard_swish, find_softmax, find_variance: ops written as other ops."""

from __future__ import annotations

import pytest
from random_graphs import assert_rewrites, brief, build

from fourfold.compiler.rewrite.drop_unused import drop_unused
from fourfold.compiler.rewrite.find_hard_swish import find_hard_swish
from fourfold.compiler.rewrite.find_prelu import find_prelu
from fourfold.compiler.rewrite.find_softmax import find_softmax
from fourfold.compiler.rewrite.find_variance import find_variance
from fourfold.graph import Graph


def find(graph: Graph) -> Graph:
    """Run all four passes, and remove unread nodes."""
    return drop_unused(find_variance(find_softmax(find_hard_swish(find_prelu(graph)))))


HEAD = """
    input x: f32[2,3,5]
    const alpha: f32[5]
    const c: f32[5]
    const zero: f32[] = 0
    const half: f32[] = 0.5
    const three: f32[] = 3
    const six: f32[] = 6
    const sixth: f32[] = 0.16666667
"""
PRELU = {
    "negated twice": "n = negate(x)\nr = relu(n)\nm = negate(r)\ns = mul(m, alpha)\ny = add(p, s)",
    "subtracted": "n = negate(x)\nr = relu(n)\ns = mul(alpha, r)\ny = sub(p, s)",
    "minimum": "m = minimum(zero, x)\ns = mul(alpha, m)\ny = add(s, p)",
    "absolute": "a = absolute(x)\nd = sub(x, a)\nh = mul(d, half)\ns = mul(h, c)\ny = add(p, s)",
}
NOT_PRELU = {
    "other value": "n = negate(p)\nr = relu(n)\ns = mul(alpha, r)\ny = sub(p, s)",
    "wrong side": "n = negate(x)\nr = relu(n)\ns = mul(alpha, r)\ny = sub(s, p)",
    "no constant": "n = negate(x)\nr = relu(n)\ns = mul(x, r)\ny = sub(p, s)",
    "no zero": "m = minimum(half, x)\ns = mul(alpha, m)\ny = add(s, p)",
}
SWISH = {
    "gate scaled": "t = mul(g, sixth)\ny = mul(x, t)",
    "gate divided": "t = div(g, six)\ny = mul(t, x)",
    "product scaled": "t = mul(x, g)\ny = mul(sixth, t)",
    "product divided": "t = mul(g, x)\ny = div(t, six)",
    "value scaled": "t = mul(x, sixth)\ny = mul(t, g)",
}
NOT_SWISH = {
    "no factor": "y = mul(x, g)",
    "other factor": "t = mul(g, half)\ny = mul(x, t)",
    "other value": "t = mul(g, sixth)\ny = mul(g, t)",
    "wrong side": "t = mul(g, x)\ny = div(six, t)",
}
SOFTMAX = {
    "with max": """
        m = reduce_max(x; axes=(2,), keep_dims=True)
        d = sub(x, m)
        e = exp(d)
        s = sum(e; axes=(2,), keep_dims=True)
        y = div(e, s)
    """,
    "without max": "e = exp(x)\ns = sum(e; axes=(2,), keep_dims=True)\ny = div(e, s)",
}

VARIANCE = {
    "in one op": "d = squared_difference(m, x)",
    "squared": "p = sub(x, m)\nd = square(p)",
    "multiplied": "p = sub(x, m)\nd = mul(p, p)",
}
NOT_VARIANCE = {
    "other value": "p = sub(x, m)\nd = mul(p, x)",
    "sum": "p = add(x, m)\nd = square(p)",
    "larger": "k = add(x, alpha)\nd = squared_difference(m, alpha)",
}


def body(*parts: str) -> str:
    return "\n".join([HEAD, *parts, "output y"])


@pytest.mark.parametrize("name", PRELU)
def test_prelu(name: str) -> None:
    assert_rewrites(find, body("p = relu(x)", PRELU[name]), "y = prelu(x, y/slope)")


@pytest.mark.parametrize("name", NOT_PRELU)
def test_keeps_nodes_that_are_not_prelu(name: str) -> None:
    graph = build(body("p = relu(x)", NOT_PRELU[name]))
    assert brief(find(graph)) == brief(graph)


@pytest.mark.parametrize("name", SWISH)
def test_hard_swish(name: str) -> None:
    assert_rewrites(find, body("a = add(x, three)\ng = relu6(a)", SWISH[name]), "y = hard_swish(x)")


@pytest.mark.parametrize("name", NOT_SWISH)
def test_keeps_nodes_that_are_not_hard_swish(name: str) -> None:
    graph = build(body("a = add(x, three)\ng = relu6(a)", NOT_SWISH[name]))
    assert brief(find(graph)) == brief(graph)


@pytest.mark.parametrize("name", SOFTMAX)
def test_softmax(name: str) -> None:
    assert_rewrites(find, body(SOFTMAX[name]), "y = softmax(x)")


def test_sum_over_other_axes_is_not_softmax() -> None:
    graph = build(body(SOFTMAX["without max"].replace("(2,)", "(1,)")))
    assert brief(find(graph)) == brief(graph)


@pytest.mark.parametrize("name", VARIANCE)
def test_variance(name: str) -> None:
    mean = "m = mean(x; axes=(2,), keep_dims=True)"
    after = "y = variance(x, m; axes=(2,), keep_dims=True)"
    text = body(mean, VARIANCE[name], "y = mean(d; axes=(2,), keep_dims=True)")
    assert_rewrites(find, text, mean, after)


@pytest.mark.parametrize("name", NOT_VARIANCE)
def test_keeps_nodes_that_are_not_variance(name: str) -> None:
    mean = "m = mean(x; axes=(2,), keep_dims=True)"
    text = body(mean, NOT_VARIANCE[name], "y = mean(d; axes=(2,), keep_dims=True)")
    graph = drop_unused(build(text))
    assert brief(find(graph)) == brief(graph)


def test_squares_that_others_read_are_stored() -> None:
    lines = ("m = mean(x; axes=(2,), keep_dims=True)", "d = squared_difference(x, m)")
    text = body(*lines, "v = mean(d; axes=(2,), keep_dims=True)", "y = add(d, v)")
    assert brief(find(build(text))) == brief(build(text))
