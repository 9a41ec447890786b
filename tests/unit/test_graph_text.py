"""The short text of a graph, as `fourfold explain` prints it."""

from __future__ import annotations

from dataclasses import replace

from random_graphs import build


def test_values_have_numbers_and_constants_have_types() -> None:
    graph = build("""
        input image: f32[1,4,4,3]
        const weights: f32[8,1,1,3]
        const bias: f32[8]
        features/with/a/long/name = conv2d(image, weights, bias) |> relu
        other = conv2d(image, weights, bias; stride=(2,2))
        output features/with/a/long/name, other
    """)
    assert graph.short_text().splitlines() == [
        "input %0 image: f32[1,4,4,3]",
        "%1 = conv2d(%0, f32[8,1,1,3], f32[8]) |> relu: f32[1,4,4,8]",
        "%2 = conv2d(%0, f32[8,1,1,3], f32[8]; stride=(2, 2)): f32[1,2,2,8]",
        "output %1 features/with/a/long/name, %2 other",
    ]


def test_states_name_the_value_that_follows_them() -> None:
    graph = build("""
        input x: f32[3]
        input memory: f32[3]
        sum = add(x, memory)
        y = relu(sum)
        output y, sum
    """)
    graph = replace(graph, states={"memory": "sum"})
    lines = graph.short_text().splitlines()
    assert "state %1 memory, then %2: f32[3]" in lines
    assert lines[-1] == "output %3 y"
