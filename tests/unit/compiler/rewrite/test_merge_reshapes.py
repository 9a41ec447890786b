"""merge_reshapes: consecutive reshapes or transposes become one, those without effect none."""

from __future__ import annotations

import pytest
from random_graphs import assert_rewrites

from fourfold.compiler.rewrite.drop_unused import drop_unused
from fourfold.compiler.rewrite.merge_reshapes import merge_reshapes
from fourfold.graph import Graph


def merge(graph: Graph) -> Graph:
    """Run the pass, and remove unread nodes."""
    return drop_unused(merge_reshapes(graph))


CASES = {
    "reshapes become one": (
        "f32[2,3,4]",
        (
            "a = reshape(x; shape=(6, 4))",
            "b = reshape(a; shape=(24,))",
            "y = reshape(b; shape=(4, 6))",
        ),
        ("y = reshape(x; shape=(4, 6))",),
    ),
    "reshapes become none": (
        "f32[2,3]",
        ("a = reshape(x; shape=(6,))", "b = reshape(a; shape=(2, 3))", "y = relu(b)"),
        ("y = relu(x)",),
    ),
    "an input is copied to an output": (
        "f32[2,3]",
        ("a = reshape(x; shape=(6,))", "y = reshape(a; shape=(2, 3))"),
        ("y = reshape(x; shape=(2, 3))",),
    ),
    "an output names the producer": (
        "f32[2,3]",
        ("p = relu(x)", "a = reshape(p; shape=(6,))", "y = reshape(a; shape=(2, 3))"),
        ("y = relu(x)",),
    ),
    "transposes become one": (
        "f32[2,3,4]",
        ("a = transpose(x; permutation=(1, 2, 0))", "y = transpose(a; permutation=(0, 2, 1))"),
        ("y = transpose(x; permutation=(1, 0, 2))",),
    ),
    "transposes become none": (
        "f32[2,3,4]",
        (
            "a = transpose(x; permutation=(1, 2, 0))",
            "b = transpose(a; permutation=(2, 0, 1))",
            "y = relu(b)",
        ),
        ("y = relu(x)",),
    ),
    "only ones move": (
        "f32[1,1,5,3]",
        ("a = transpose(x; permutation=(2, 0, 1, 3))", "y = reshape(a; shape=(3, 5))"),
        ("y = reshape(x; shape=(3, 5))",),
    ),
    "only ones are reduced": (
        "f32[2,1,1,3]",
        ("a = mean(x; axes=(1, 2), keep_dims=False)", "y = reshape(a; shape=(3, 2))"),
        ("y = reshape(x; shape=(3, 2))",),
    ),
    "reshapes between transposes": (
        "f32[2,3,4]",
        (
            "a = transpose(x; permutation=(1, 2, 0))",
            "b = reshape(a; shape=(24,))",
            "c = reshape(b; shape=(3, 4, 2))",
            "d = transpose(c; permutation=(2, 0, 1))",
            "y = relu(d)",
        ),
        ("y = relu(x)",),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_merging(name: str) -> None:
    type_, before, after = CASES[name]
    text = "\n".join([f"input x: {type_}", *before, "output y"])
    assert_rewrites(merge, text, *after)


def test_keeps_values_with_other_readers() -> None:
    before = """
        input x: f32[2,3]
        a = reshape(x; shape=(6,))
        y = reshape(a; shape=(3, 2))
        z = relu(a)
        output y, z
    """
    after = ("a = reshape(x; shape=(6,))", "y = reshape(x; shape=(3, 2))", "z = relu(a)")
    assert_rewrites(merge, before, *after)
