"""Expressions: constants are folded, and kinds and widths are converted."""

from __future__ import annotations

import pytest

from fourfold.codegen import expression as e
from fourfold.codegen.expression import Expression, const, name


def integer(title: str = "i") -> Expression:
    return name(title, "int")


@pytest.mark.parametrize(
    ("made", "number"),
    [
        (const(2) + 3, 5),
        (const(7) // 2, 3),
        (const(7) % 4, 3),
        (integer() * 0, 0),
        (integer() % 1, 0),
        (e.maximum(const(2), 3), 3),
        (e.minimum(const(2.0), 3.0), 2.0),
        (const(2) < 3, True),
        (e.where(const(True), const(1), const(2)), 1),
        (e.convert(const(2.75), "int"), 2),
    ],
)
def test_folds_constants(made: Expression, number: float) -> None:
    assert made.number == number


@pytest.mark.parametrize(
    "same", [lambda i: i + 0, lambda i: 0 + i, lambda i: i * 1, lambda i: i // 1, lambda i: i - 0]
)
def test_drops_neutral_operands(same: object) -> None:
    i = integer()
    assert same(i) is i  # type: ignore[operator]


def test_folds_logic_with_constant_operand() -> None:
    condition = integer() < 3
    assert (condition & const(True)) is condition
    assert (condition | const(True)).number is True
    assert (condition & const(False)).number is False


def test_literals_take_kind_of_other_operand() -> None:
    x = name("x", "float", 4)
    made = x * 2
    assert made.kind == "float"
    assert made.operands[1].kind == "float"
    assert made.operands[1].width == 4


def test_integer_with_fraction_becomes_float() -> None:
    assert (integer() * 0.5).kind == "float"


def test_bool_converts_with_selection() -> None:
    assert e.convert(integer() < 3, "float").op == "where"


def test_lane_of_vector_is_its_element() -> None:
    lanes = [name(f"x{n}", "float") for n in range(4)]
    assert e.vector(*lanes).lane(2) is lanes[2]
