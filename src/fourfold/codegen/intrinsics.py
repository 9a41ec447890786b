"""Bitwise expressions, and expressions that only some devices support.

These are raw words, packed halves, sub-groups and bytes.
"""

from __future__ import annotations

from fourfold.codegen.expression import Expression, Operand, Pointer, const, lift, widen


def load_words(pointer: Pointer, index: Operand, inside: Expression | None = None) -> Expression:
    """Load four halves at `index * 4` unchanged, in two 32-bit words.

    If `inside` is false, the result is zeros and nothing is read.
    """
    condition = () if inside is None else (inside,)
    return Expression("load_words", (pointer, lift(index), *condition), "uint", 2)


def load_words_streamed(pointer: Pointer, index: Operand) -> Expression:
    """Load four halves starting at an element, with the hint that a run reads them only once."""
    return Expression("load_words_streamed", (pointer, lift(index)), "uint", 2)


def load_double_words(pointer: Pointer, index: Operand, inside: Operand) -> Expression:
    """Load eight halves at an element, unchanged; zeros, without a read, if not `inside`."""
    return Expression("load_double_words", (pointer, lift(index), lift(inside)), "uint", 4)


def pack_halves(value: Expression) -> Expression:
    """Round four floats to halves, packed in two words."""
    return Expression("pack_halves", (value,), "uint", 2)


def unpack_halves(words: Expression) -> Expression:
    """Unpack four halves from two words to floats."""
    return Expression("unpack_halves", (words,), "float", 4)


def subgroup_size() -> Expression:
    """Return how many neighbours along the first local axis can exchange values."""
    return Expression("subgroup_size", (), "int")


def subgroup_exchange(value: Expression, apart: int) -> Expression:
    """Return the float of the work-item whose index in its sub-group differs in the bit `apart`."""
    return Expression("subgroup_exchange", (value, const(apart)), "float")


def subgroup_shift(words: Expression, distance: int) -> Expression:
    """Return the words of the work-item `distance` lanes further on (before it if negative).

    If that lane does not exist, the result is the work-item's own words.
    """
    return Expression("subgroup_shift", (words, const(distance)), "uint", 2)


def load_bytes(pointer: Pointer, index: Operand) -> Expression:
    """Load eight unsigned bytes starting at an element, as floats."""
    return Expression("load_bytes", (pointer, lift(index)), "float", 8)


def load_taps(pointer: Pointer, index: Operand, step: int) -> Expression:
    """Load bytes under the windows of two pixels from a private array of words.

    The four words starting at `index` are a 4 x 4 matrix of bytes, and those `step` further on
    another. Lanes 0-3 are the columns of the first matrix as words, lanes 4-7 those of the second.
    """
    return Expression("load_taps", (pointer, lift(index), const(step)), "int", 8)


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
