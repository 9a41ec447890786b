"""Integer division that no value can make trap."""

from __future__ import annotations

from fourfold.codegen.expression import Expression, where


def safe_divisor(b: Expression) -> Expression:
    """Return the divisor, with 1 in place of 0 and -1.

    On CPUs, an integer division by zero and one of the smallest integer by -1 end the process.
    """
    return where(b.equals(0) | b.equals(-1), 1, b)


def divide_integers(a: Expression, b: Expression) -> Expression:
    """Return a / b, rounded toward zero; `a` itself where b is zero."""
    return where(b.equals(-1), 0 - a, a / safe_divisor(b))
