"""read_planes: an input that is transposed to channels last is read as planes."""

from __future__ import annotations

import pytest
from random_graphs import assert_rewrites, build

from fourfold.compiler.rewrite.read_planes import read_planes

TEXT = """
    input x: f32[{shape}]
    a = transpose(x; permutation={order})
    y = relu(a)
    output y
"""


@pytest.mark.parametrize(
    ("shape", "order"),
    [("1,3,9,7", (0, 2, 3, 1)), ("2,3,9", (0, 2, 1)), ("1,3,2,5,7", (0, 2, 3, 4, 1))],
)
def test_planes_of_inputs(shape: str, order: tuple[int, ...]) -> None:
    text = TEXT.format(shape=shape, order=order)
    assert_rewrites(read_planes, text, "a = planes_to_pixels(x)", "y = relu(a)")


@pytest.mark.parametrize("order", [(0, 3, 1, 2), (0, 2, 1, 3), (1, 0, 2, 3)])
def test_other_orders_stay(order: tuple[int, ...]) -> None:
    text = TEXT.format(shape="1,3,9,7", order=order)
    assert_rewrites(read_planes, text, f"a = transpose(x; permutation={order})", "y = relu(a)")


def test_keeps_transposes_of_other_values() -> None:
    text = """
    input x: f32[1,3,9,7]
    a = softmax(x)
    y = transpose(a; permutation=(0, 2, 3, 1))
    output y
    """
    last = "y = transpose(a; permutation=(0, 2, 3, 1))"
    assert_rewrites(read_planes, text, "a = softmax(x)", last)


@pytest.mark.parametrize("shape", ["2,3,9,7", "1,5,9,7"])
@pytest.mark.parametrize(
    ("reader", "planes"),
    [
        ("y = conv2d(a, w)", True),
        ("y = pad(a; before=(0, 1, 1, 0), after=(0, 1, 1, 0), value=0.0)", True),
        ("y = max_pool2d(a; filter=(2, 2), stride=(2, 2), padding=Padding(0, 0, 0, 0))", False),
        ("y = softmax(a)", False),
    ],
)
def test_many_planes_only_for_suitable_readers(shape: str, reader: str, planes: bool) -> None:
    text = f"""
    input x: f32[{shape}]
    const w: f32[5,1,1,{shape.split(",")[1]}]
    a = transpose(x; permutation=(0, 2, 3, 1))
    {reader}
    output y
    """
    ops = [node.op for node in read_planes(build(text)).nodes]
    assert ops[0] == ("planes_to_pixels" if planes else "transpose")


def test_planes_of_inputs_that_are_scaled_first() -> None:
    assert_rewrites(
        read_planes,
        """
        input x: f32[1,3,9,7]
        input z: f32[1,3,9,7]
        const c: f32[3,1,1]
        const d: f32[]
        a = sub(x, c)
        b = mul(d, a)
        e = add(b, z)
        y = transpose(e; permutation=(0, 2, 3, 1))
        output y
        output b
        """,
        "a = sub(x, c)",
        "b = mul(d, a)",
        "e = add(b, z)",
        "x/pixels = planes_to_pixels(x)",
        "a/pixels = sub(x/pixels, c/pixels)",
        "b/pixels = mul(d, a/pixels)",
        "z/pixels = planes_to_pixels(z)",
        "y = add(b/pixels, z/pixels)",
    )


def test_constants_alone_stay() -> None:
    text = """
    const c: f32[1,3,9,7]
    a = identity(c)
    y = transpose(a; permutation=(0, 2, 3, 1))
    output y
    """
    last = "y = transpose(a; permutation=(0, 2, 3, 1))"
    assert_rewrites(read_planes, text, "a = identity(c)", last)


def diamonds(count: int) -> str:
    lines, last = ["input x: f32[1,3,9,7]"], "x"
    for number in range(count):
        lines += [f"r{number} = relu({last})", f"a{number} = add({last}, r{number})"]
        last = f"a{number}"
    lines.append(f"y = transpose({last}; permutation=(0, 2, 3, 1))")
    return "\n".join([*lines, "output y"])


def test_each_value_of_many_diamonds_is_visited_once() -> None:
    """A walk along every path would take 2 ** 30 steps."""
    graph = read_planes(build(diamonds(30)))
    assert not any(node.op == "transpose" for node in graph.nodes)
    assert sum(node.op == "planes_to_pixels" for node in graph.nodes) == 1
    assert len(graph.nodes) == 2 * (2 * 30) + 1  # drop_unused removes the first half


def test_keeps_a_transpose_behind_a_long_chain() -> None:
    text = diamonds(700)
    assert str(read_planes(build(text))) == str(build(text))
