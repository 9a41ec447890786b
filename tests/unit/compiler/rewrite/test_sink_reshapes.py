"""sink_reshapes: pointwise nodes move before a reshape, to the producer of its input."""

from __future__ import annotations

import pytest
from random_graphs import assert_rewrites, brief, build

from fourfold.compiler.rewrite.fuse_pointwise import fuse_pointwise
from fourfold.compiler.rewrite.sink_reshapes import sink_reshapes
from fourfold.graph import Graph

HEAD = """
    input x: f32[1,4,4,6]
    const w: f32[6,1,1,6]
    const c: f32[6]
    const k: f32[] = 3
    const deep: f32[1,1,1,1] = 3
    a = conv2d(x, w, -)
"""
FLAT, SAME = "b = reshape(a; shape=(1, 96))", "b = reshape(a; shape=(16, 6))"
SINKS = {
    "one input": ((FLAT, "y = relu(b)"), "relu", (1, 96)),
    "a number": ((FLAT, "y = mul(k, b)"), "mul(k)", (1, 96)),
    "one a channel": ((SAME, "y = add(b, c)"), "add(c)", (16, 6)),
    "twice the same": ((FLAT, "y = mul(b, b)"), "mul", (1, 96)),
    "a chain": ((FLAT, "d = relu(b)", "y = add(d, k)"), "relu |> add(k)", (1, 96)),
}
STAYS = {
    "more than numbers": (FLAT, "y = add(b, x2)"),
    "more axes": (SAME, "y = add(b, deep)"),
    "two readers": (FLAT, "d = relu(b)", "y = add(d, b)"),
    "what is before is read, too": (FLAT, "d = relu(b)", "e = mean(a; axes=(0,), keep_dims=True)",
                                    "y = softmax(d)", "z = exp(e)"),
    "a reshape that is an output": (FLAT, "d = relu(b)", "y = reshape(d; shape=(2, 48))"),
    "no kernel before": ("b = reshape(x; shape=(1, 96))", "y = relu(b)"),
}  # fmt: skip


def sink(graph: Graph) -> Graph:
    return fuse_pointwise(sink_reshapes(graph))


@pytest.mark.parametrize("name", SINKS)
def test_sinking(name: str) -> None:
    lines, tail, shape = SINKS[name]
    text = "\n".join([HEAD, *lines, "output y"])
    after = f"y/before = conv2d(x, w, -) |> {tail}", f"y = reshape(y/before; shape={shape})"
    assert_rewrites(sink, text, *after)


@pytest.mark.parametrize("name", STAYS)
def test_keeps_other_reshapes(name: str) -> None:
    outputs = "output y, z" if "z =" in STAYS[name][-1] else "output y"
    graph = build(
        "\n".join([HEAD.replace("a =", "input x2: f32[1,96]\na ="), *STAYS[name], outputs])
    )
    assert brief(sink_reshapes(graph)) == brief(graph)


def test_a_reshape_and_back() -> None:
    lines = (FLAT, "d = relu(b)", "e = reshape(d; shape=(1, 4, 4, 6))", "y = softmax(e)")
    after = ("d/before = conv2d(x, w, -) |> relu", "y = softmax(d/before)")
    assert_rewrites(sink, "\n".join([HEAD, *lines, "output y"]), *after)


def test_reshape_after_it() -> None:
    lines = (FLAT, "d = relu(b)", "e = reshape(d; shape=(16, 6))", "y = softmax(e)")
    after = ("e = reshape(d/before; shape=(16, 6))", "y = softmax(e)")
    first = "d/before = conv2d(x, w, -) |> relu"
    assert_rewrites(sink, "\n".join([HEAD, *lines, "output y"]), first, *after)


def test_a_reshape_and_back_that_others_read() -> None:
    lines = (
        FLAT,
        "d = relu(b)",
        "e = reshape(d; shape=(1, 4, 4, 6))",
        "y = softmax(e)",
        "z = softmax(d)",
    )
    graph = sink(build("\n".join([HEAD, *lines, "output y, z"])))
    assert brief(graph) == [
        "d/before = conv2d(x, w, -) |> relu",
        "d = reshape(d/before; shape=(1, 96))",
        "y = softmax(d/before)",
        "z = softmax(d)",
    ]
