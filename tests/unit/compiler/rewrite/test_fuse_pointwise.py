"""fuse_pointwise: pointwise nodes become the tail of the node before them."""

from __future__ import annotations

import pytest
from random_graphs import assert_rewrites, brief, build

from fourfold.compiler.rewrite.fuse_pointwise import MAX_TAIL_INPUTS, MAX_TAIL_STEPS, fuse_pointwise

HEAD = """
    input x: f32[1,4,4,3]
    const w: f32[3,1,1,3]
    const c: f32[3]
    const wide: f32[2,4,4,3]
"""
CASES = {
    "a chain behind a convolution": (
        ("a = conv2d(x, w, -)", "b = add(a, x)", "d = prelu(b, c)", "y = relu6(d)"),
        ("y = conv2d(x, w, -) |> add(x) |> prelu(c) |> relu6",),
    ),
    "a chain without a kernel": (
        ("a = mul(x, c)", "b = add(c, a)", "y = relu(b)"),
        ("y = mul(x, c) |> add(c) |> relu",),
    ),
    "the running value twice": (
        ("a = softmax(x)", "y = mul(a, a)"),
        ("y = softmax(x) |> mul",),
    ),
    "the last of two, which moves down": (
        ("a = conv2d(x, w, -)", "b = conv2d(a, w, -)", "d = mean(x; axes=(0,), keep_dims=True)",
         "e = relu(d)", "y = add(b, e)"),
        ("a = conv2d(x, w, -)", "b = conv2d(a, w, -)",
         "y = mean(x; axes=(0,), keep_dims=True) |> relu |> add(b)"),
    ),
    "the longer of two rows, though its shortcut comes last": (
        ("a = conv2d(x, w, -)", "b = conv2d(a, w, -)", "d = conv2d(x, w, -)", "e = add(b, d)",
         "y = relu(e)"),
        ("a = conv2d(x, w, -)", "d = conv2d(x, w, -)", "y = conv2d(a, w, -) |> add(d) |> relu"),
    ),
    "a node moves to what it needs": (
        ("a = conv2d(x, w, -)", "m = mean(x; axes=(1, 2), keep_dims=True)", "y = mul(a, m)"),
        ("m = mean(x; axes=(1, 2), keep_dims=True)", "y = conv2d(x, w, -) |> mul(m)"),
    ),
    "a node that moved is read below": (
        ("a = conv2d(x, w, -)", "m = mean(x; axes=(1, 2), keep_dims=True)", "b = mul(a, m)",
         "d = conv2d(b, w, -)", "y = add(d, b)"),
        ("m = mean(x; axes=(1, 2), keep_dims=True)", "b = conv2d(x, w, -) |> mul(m)",
         "y = conv2d(b, w, -) |> add(b)"),
    ),
    "a new element type": (
        ("a = conv2d(x, w, -)", "y = cast(a; to=DType.I32)"),
        ("y = conv2d(x, w, -) |> cast(to=DType.I32)",),
    ),
    "the smaller operand is no candidate": (
        ("m = mean(x; axes=(1, 2), keep_dims=True)", "y = add(x, m)"),
        ("m = mean(x; axes=(1, 2), keep_dims=True)", "y = add(x, m)"),
    ),
    "the result is larger": (
        ("a = conv2d(x, w, -)", "y = add(a, wide)"),
        ("a = conv2d(x, w, -)", "y = add(a, wide)"),
    ),
    "two readers": (
        ("a = conv2d(x, w, -)", "b = relu(a)", "y = add(a, b)"),
        ("a = conv2d(x, w, -)", "y = relu(a) |> add(a)"),
    ),
    "a view has no kernel": (
        ("a = conv2d(x, w, -)", "b = reshape(a; shape=(16, 3))", "y = relu(b)"),
        ("a = conv2d(x, w, -)", "b = reshape(a; shape=(16, 3))", "y = relu(b)"),
    ),
    "data that moves": (
        ("a = transpose(x; permutation=(0, 3, 1, 2))", "y = relu(a)"),
        ("y = transpose(x; permutation=(0, 3, 1, 2)) |> relu",),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_fusing(name: str) -> None:
    before, after = CASES[name]
    assert_rewrites(fuse_pointwise, "\n".join([HEAD, *before, "output y"]), *after)


def test_an_output_in_the_middle_is_stored() -> None:
    before = f"{HEAD}\na = conv2d(x, w, -)\ny = relu(a)\noutput a, y"
    assert_rewrites(fuse_pointwise, before, "a = conv2d(x, w, -)", "y = relu(a)")


def test_the_name_of_the_first_node_is_kept() -> None:
    text = f"{HEAD}\na = conv2d(x, w, -)\ny = relu(a)\noutput y"
    (node,) = fuse_pointwise(build(text)).nodes
    assert (node.name, node.outputs) == ("a", ("y",))


def test_a_long_chain_is_cut() -> None:
    steps = MAX_TAIL_STEPS + 3
    lines = [f"v{i + 1} = tanh(v{i})" for i in range(steps)]
    text = "\n".join([HEAD, "v0 = conv2d(x, w, -)", *lines, f"output v{steps}"])
    nodes = fuse_pointwise(build(text)).nodes
    assert [len(node.tail) for node in nodes] == [MAX_TAIL_STEPS, 2]
    assert_rewrites(fuse_pointwise, text, *brief(fuse_pointwise(build(text))))


def test_limits_inputs_of_a_tail() -> None:
    count = MAX_TAIL_INPUTS + 2
    constants = [f"const k{i}: f32[3]" for i in range(count)]
    lines = [f"v{i + 1} = add(v{i}, k{i})" for i in range(count)]
    text = "\n".join([HEAD, *constants, "v0 = conv2d(x, w, -)", *lines, f"output v{count}"])
    nodes = fuse_pointwise(build(text)).nodes
    assert [len(node.tail) for node in nodes] == [MAX_TAIL_INPUTS, 1]


def test_a_view_is_fused_only_with_its_reader() -> None:
    before = """
        input x: f32[3]
        a = exp(x)
        b = dequantize(a; scale=0.5, zero_point=0)
        c = softmax(b; beta=1.0)
        d = exp(c)
        e = dequantize(d; scale=0.5, zero_point=0)
        f = exp(e)
        output f
    """
    assert_rewrites(
        fuse_pointwise,
        before,
        "a = exp(x)",
        "b = dequantize(a; scale=0.5, zero_point=0)",
        "f = softmax(b) |> exp |> dequantize(scale=0.5, zero_point=0) |> exp",
    )
