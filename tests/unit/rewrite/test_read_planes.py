"""read_planes: an input that is transposed to bring its channels last is read as planes."""

from __future__ import annotations

import pytest
from random_graphs import assert_rewrites

from fourfold.rewrite.read_planes import read_planes

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
    assert_rewrites(read_planes, text, "a = planes(x)", "y = relu(a)")


@pytest.mark.parametrize("order", [(0, 3, 1, 2), (0, 2, 1, 3), (1, 0, 2, 3)])
def test_other_orders_stay(order: tuple[int, ...]) -> None:
    text = TEXT.format(shape="1,3,9,7", order=order)
    assert_rewrites(read_planes, text, f"a = transpose(x; permutation={order})", "y = relu(a)")


def test_what_is_no_input_stays() -> None:
    text = """
    input x: f32[1,3,9,7]
    a = exp(x)
    y = transpose(a; permutation=(0, 2, 3, 1))
    output y
    """
    last = "y = transpose(a; permutation=(0, 2, 3, 1))"
    assert_rewrites(read_planes, text, "a = exp(x)", last)
