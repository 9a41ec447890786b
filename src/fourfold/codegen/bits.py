"""Bitwise expressions on integers."""

from __future__ import annotations

from fourfold.codegen.expression import Expression, Operand, lift, widen


def _bits(op: str, a: Operand, b: Operand) -> Expression:
    first, second = lift(a), lift(b)
    width = max(first.width, second.width)
    return Expression(op, (widen(first, width), widen(second, width)), "int", width)


def bit_and(a: Operand, b: Operand) -> Expression:
    return _bits("&", a, b)


def bit_or(a: Operand, b: Operand) -> Expression:
    return _bits("|", a, b)


def bit_xor(a: Operand, b: Operand) -> Expression:
    return _bits("^", a, b)


def shift_left(a: Operand, count: Operand) -> Expression:
    """Shift left by 0 to 31 bits; bits shifted out are lost."""
    return _bits("<<", a, count)


def shift_right(a: Operand, count: Operand) -> Expression:
    """Shift right by 0 to 31 bits; the sign bit is copied in from the left."""
    return _bits(">>", a, count)
