"""drop_identities: nodes that return their input are removed, and outputs keep their names."""

from __future__ import annotations

import pytest
from random_graphs import assert_rewrites

from fourfold.compiler.rewrite.drop_identities import drop_identities

NOTHING = (
    "identity(a)",
    "reshape(a; shape=(1, 4, 4, 3))",
    "transpose(a; permutation=(0, 1, 2, 3))",
    "slice(a; begin=(0, 0, 0, 0), size=(1, 4, 4, 3), strides=(-1, 1, 1, 1))",
    "pad(a; before=(0, 0, 0, 0), after=(0, 0, 0, 0))",
    "concat(a; axis=3)",
    "tile(a; multiples=(1, 1, 1, 1))",
    "cast(a; to=DType.F32)",
    "resize_bilinear(a; size=(4, 4))",
    "sum(a; axes=(0,), keep_dims=True)",
    "mul(a, one)",
    "mul(one, a)",
    "div(a, one)",
    "add(zero, a)",
    "sub(a, zero)",
    "power(a, one)",
)
SOMETHING = (
    "slice(a; begin=(0, 3, 0, 0), size=(1, 4, 4, 3), strides=(1, -1, 1, 1))",
    "transpose(a; permutation=(0, 2, 1, 3))",
    "sub(zero, a)",
    "add(a, one)",
    "add(a, wide)",
    "cast(a; to=DType.I32)",
    "mean(a; axes=(1,), keep_dims=True)",
)
BEFORE = """
    input x: f32[1,4,4,3]
    const one: f32[3] = 1
    const zero: f32[] = 0
    const wide: f32[5,1,1,1,1] = 0
    a = relu(x)
    b = {0}
    y = negate(b)
    output y
"""


@pytest.mark.parametrize("node", NOTHING)
def test_removes_nodes_without_effect(node: str) -> None:
    assert_rewrites(drop_identities, BEFORE.format(node), "a = relu(x)", "y = negate(a)")


@pytest.mark.parametrize("node", SOMETHING)
def test_keeps_nodes_with_effect(node: str) -> None:
    after = node
    assert_rewrites(
        drop_identities, BEFORE.format(node), "a = relu(x)", f"b = {after}", "y = negate(b)"
    )


def test_an_output_takes_its_name_to_the_producer() -> None:
    before = """
        input x: f32[3]
        a = relu(x)
        b = identity(a)
        y = identity(b)
        z = negate(a)
        output y, z
    """
    assert_rewrites(drop_identities, before, "y = relu(x)", "z = negate(y)")


def test_inputs_constants_and_other_outputs_are_copied() -> None:
    before = """
        input x: f32[3]
        const c: f32[3]
        p = identity(x)
        q = identity(c)
        r = relu(x)
        s = identity(r)
        t = identity(r)
        output p, q, s, t
    """
    after = ("p = identity(x)", "q = identity(c)", "s = relu(x)", "t = identity(s)")
    assert_rewrites(drop_identities, before, *after)
