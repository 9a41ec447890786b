"""Expressions for what only some devices can do: raw words, halves in words, sub-groups, bytes."""

from __future__ import annotations

from fourfold.kernel.expression import Expression, Operand, Pointer, const, lift


def load_words(pointer: Pointer, index: Operand, inside: Expression | None = None) -> Expression:
    """Four halves at `index * 4` as they lie in memory, in two 32-bit words.

    Where `inside` does not hold, zeros, and nothing is read.
    """
    asked = () if inside is None else (inside,)
    return Expression("load_words", (pointer, lift(index), *asked), "uint", 2)


def load_words_streamed(pointer: Pointer, index: Operand) -> Expression:
    """The four halves from an element on, with the hint that a run reads them once."""
    return Expression("load_words_streamed", (pointer, lift(index)), "uint", 2)


def load_double_words(pointer: Pointer, index: Operand, inside: Operand) -> Expression:
    """The eight halves from an element on, as they lie in memory; zeros where `inside` does not
    hold, and nothing is read.
    """
    return Expression("load_double_words", (pointer, lift(index), lift(inside)), "uint", 4)


def pack_halves(value: Expression) -> Expression:
    """Four floats, rounded to halves, in two words."""
    return Expression("pack_halves", (value,), "uint", 2)


def unpack_halves(words: Expression) -> Expression:
    """The four halves of two words as floats."""
    return Expression("unpack_halves", (words,), "float", 4)


def subgroup_size() -> Expression:
    """How many neighbours along the first local axis can exchange values."""
    return Expression("subgroup_size", (), "int")


def subgroup_exchange(value: Expression, apart: int) -> Expression:
    """The float of the work-item whose number in its sub-group differs in this one bit."""
    return Expression("subgroup_exchange", (value, const(apart)), "float")


def subgroup_shift(words: Expression, distance: int) -> Expression:
    """The two words of the work-item so many lanes further on, before if negative; where there is
    none, its own.
    """
    return Expression("subgroup_shift", (words, const(distance)), "uint", 2)


def load_bytes(pointer: Pointer, index: Operand) -> Expression:
    """The eight unsigned bytes from an element on, as numbers."""
    return Expression("load_bytes", (pointer, lift(index)), "float", 8)


def load_taps(pointer: Pointer, index: Operand, step: int) -> Expression:
    """Bytes under the windows of two pixels, out of a private array of words.

    The four words from `index` on are a matrix of four by four bytes, and those `step` further on
    another; lanes 0-3 are the columns of the first as words, lanes 4-7 those of the second.
    """
    return Expression("load_taps", (pointer, lift(index), const(step)), "int", 8)
