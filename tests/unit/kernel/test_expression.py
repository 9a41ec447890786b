"""Expressions: what is known already is not written, and kinds and widths meet."""

from __future__ import annotations

import pytest

from fourfold.kernel import expression as e
from fourfold.kernel.expression import Expression, const, name


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
def test_known_results_are_folded(made: Expression, number: float) -> None:
    assert made.number == number


@pytest.mark.parametrize(
    "same", [lambda i: i + 0, lambda i: 0 + i, lambda i: i * 1, lambda i: i // 1, lambda i: i - 0]
)
def test_neutral_numbers_vanish(same: object) -> None:
    i = integer()
    assert same(i) is i  # type: ignore[operator]


def test_and_or_with_a_known_side() -> None:
    condition = integer() < 3
    assert (condition & const(True)) is condition
    assert (condition | const(True)).number is True
    assert (condition & const(False)).number is False


def test_literals_take_the_kind_of_their_partner() -> None:
    x = name("x", "float", 4)
    made = x * 2
    assert made.kind == "float"
    assert made.operands[1].kind == "float"
    assert made.operands[1].width == 4


def test_an_integer_meets_a_fraction_as_a_float() -> None:
    assert (integer() * 0.5).kind == "float"


def test_bool_becomes_a_number_by_choice() -> None:
    assert e.convert(integer() < 3, "float").op == "where"


def test_lanes_of_a_vector_are_its_parts() -> None:
    lanes = [name(f"x{n}", "float") for n in range(4)]
    assert e.vector(*lanes).lane(2) is lanes[2]
