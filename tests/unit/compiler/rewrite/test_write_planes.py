"""write_planes: an output that is transposed to channels first is written as planes."""

from __future__ import annotations

import pytest
from random_graphs import assert_rewrites

from fourfold.compiler.rewrite.write_planes import write_planes

TEXT = """
    input x: f32[{shape}]
    a = relu(x)
    y = transpose(a; permutation={order})
    output y
"""


@pytest.mark.parametrize(
    ("shape", "order"),
    [("1,9,7,5", (0, 3, 1, 2)), ("2,9,3", (0, 2, 1)), ("1,2,5,7,3", (0, 4, 1, 2, 3))],
)
def test_planes_of_outputs(shape: str, order: tuple[int, ...]) -> None:
    text = TEXT.format(shape=shape, order=order)
    assert_rewrites(write_planes, text, "a = relu(x)", "y = pixels_to_planes(a)")


@pytest.mark.parametrize("order", [(0, 2, 3, 1), (0, 2, 1, 3), (1, 0, 2, 3)])
def test_other_orders_stay(order: tuple[int, ...]) -> None:
    text = TEXT.format(shape="1,3,9,7", order=order)
    assert_rewrites(write_planes, text, "a = relu(x)", f"y = transpose(a; permutation={order})")


@pytest.mark.parametrize(("channels", "op"), [(5, "transpose"), (3, "pixels_to_planes")])
def test_many_channels_that_others_read_stay_together(channels: int, op: str) -> None:
    text = f"""
    input x: f32[1,9,7,{channels}]
    a = relu(x)
    y = transpose(a; permutation=(0, 3, 1, 2))
    z = tanh(a)
    output y
    output z
    """
    last = f"y = {op}(a)" if op != "transpose" else "y = transpose(a; permutation=(0, 3, 1, 2))"
    assert_rewrites(write_planes, text, "a = relu(x)", last, "z = tanh(a)")


def test_values_read_through_a_view_stay_together() -> None:
    text = """
    input x: f32[1,9,7,5]
    a = relu(x)
    b = concat(a, x; axis=3)
    y = transpose(b; permutation=(0, 3, 1, 2))
    z = tanh(a)
    output y
    output z
    """
    lines = [line.strip() for line in text.splitlines()[2:6]]
    assert_rewrites(write_planes, text, *lines)


def test_keeps_transposes_of_inputs() -> None:
    text = """
    input x: f32[1,9,7,5]
    y = transpose(x; permutation=(0, 3, 1, 2))
    output y
    """
    assert_rewrites(write_planes, text, "y = transpose(x; permutation=(0, 3, 1, 2))")
