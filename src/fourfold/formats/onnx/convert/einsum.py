"""Einsum: products and sums over axes labeled with letters."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from fourfold.formats.onnx.operation import Operation, converts
from fourfold.ops.base.rules import Reduce
from fourfold.ops.batch_matmul import BatchMatmul
from fourfold.ops.slice import Slice
from fourfold.types import Shape


@dataclass(frozen=True)
class _Term:
    """A value and the letter of each of its axes; axes of an ellipsis have numbers."""

    op: Operation
    value: str
    letters: tuple[str, ...]

    @property
    def shape(self) -> Shape:
        return self.op.type_of(self.value).shape

    def size(self, letter: str) -> int:
        return self.shape[self.letters.index(letter)]

    def ordered(self, letters: tuple[str, ...]) -> _Term:
        order = tuple(self.letters.index(letter) for letter in letters)
        return _Term(self.op, self.op.transposed(self.value, order, "ordered"), letters)


@converts("Einsum")
def einsum(op: Operation) -> None:
    """transposes, sums, and a batch_matmul or mul for each further operand."""
    terms, result = _read(op)
    term = _summed(_diagonal(terms[0]), {*result, *(x for one in terms[1:] for x in one.letters)})
    for number, other in enumerate(terms[1:], 1):
        later = {*result, *(letter for one in terms[number + 1 :] for letter in one.letters)}
        term = _product(term, _summed(_diagonal(other), later | set(term.letters)), later)
    op.give_value(_summed(term, set(result)).ordered(result).value)


def _read(op: Operation) -> tuple[list[_Term], tuple[str, ...]]:
    """Return the operands with their letters, and the letters of the result."""
    equation = op.text_attribute("equation", "").replace(" ", "")
    left, arrow, right = equation.partition("->")
    sides = left.split(",")
    if len(sides) != len(op.inputs):
        raise ValueError(f"'{equation}' has {len(sides)} operands, not {len(op.inputs)}")
    ranks = [op.input_type(index).rank for index in range(len(sides))]
    spare = [rank - len(side.replace("...", "")) for rank, side in zip(ranks, sides, strict=True)]
    dots_rank = max(
        [count for side, count in zip(sides, spare, strict=True) if "..." in side], default=0
    )
    terms = []
    for index, (side, count) in enumerate(zip(sides, spare, strict=True)):
        if count < 0 or (count and "..." not in side):
            raise ValueError(f"'{side}' does not fit {op.input_type(index)}")
        terms.append(_Term(op, op.input(index), _letters(side, count, dots_rank)))
    counts = Counter(letter for term in terms for letter in term.letters)
    implied = sorted(x for x, n in counts.items() if n == 1 and not x.isdigit())
    dots = tuple(str(number) for number in range(dots_rank))
    return terms, _letters(right, dots_rank, dots_rank) if arrow else (*dots, *implied)


def _letters(side: str, count: int, dots_rank: int) -> tuple[str, ...]:
    """Return the letters of a side; its ellipsis stands for `count` axes, counted from the last."""
    before, dots, after = side.partition("...")
    numbers = tuple(str(number) for number in range(dots_rank - count, dots_rank)) if dots else ()
    return (*before, *numbers, *after)


def _diagonal(term: _Term) -> _Term:
    """Take the diagonal of axes that have the same letter."""
    for letter, count in Counter(term.letters).items():
        for _ in range(count - 1):
            term = _one_diagonal(term, letter)
    return term


def _one_diagonal(term: _Term, letter: str) -> _Term:
    first = term.letters.index(letter)
    second = term.letters.index(letter, first + 1)
    rank, size = len(term.letters), term.shape[first]
    others = [axis for axis in range(rank) if axis not in (first, second)]
    op = term.op
    value = op.transposed(term.value, (*others, first, second), "pair")
    shape = op.type_of(value).shape[:-2]
    value = op.reshaped(value, (*shape, size * size), "square")
    box = Slice((0,) * (rank - 1), (*shape, size), (*(1,) * (rank - 2), size + 1))
    value = op.add("slice", value, attributes=box, part="diagonal")
    return _Term(op, value, (*(term.letters[axis] for axis in others), letter))


def _summed(term: _Term, kept: Collection[str]) -> _Term:
    """Sum over letters that are not needed any more."""
    axes = tuple(axis for axis, letter in enumerate(term.letters) if letter not in kept)
    if not axes:
        return term
    over = Reduce(axes, keep_dims=False)
    value = term.op.add("sum", term.value, attributes=over, part="sum")
    return _Term(term.op, value, tuple(x for x in term.letters if x in kept))


def _product(a: _Term, b: _Term, kept: Collection[str]) -> _Term:
    """Multiply two terms and sum over shared letters that are not kept."""
    op, both = a.op, [letter for letter in a.letters if letter in b.letters]
    batch = tuple(letter for letter in both if letter in kept)
    inner = tuple(letter for letter in both if letter not in kept)
    left = tuple(letter for letter in a.letters if letter not in both)
    right = tuple(letter for letter in b.letters if letter not in both)
    a, b = _summed(a, {*both, *kept}), _summed(b, {*both, *kept})
    left, right = (tuple(x for x in side if x in kept) for side in (left, right))
    a, b = a.ordered((*batch, *left, *inner)), b.ordered((*batch, *right, *inner))
    sizes = [tuple(one.size(x) for x in batch) for one in (a, b)]
    rows, columns = tuple(map(a.size, left)), tuple(map(b.size, right))
    batch_sizes = tuple(max(pair) for pair in zip(*sizes, strict=True))
    letters = (*batch, *left, *right)
    if not inner:
        first = op.reshaped(a.value, (*sizes[0], *rows, *(1,) * len(right)), "rows")
        second = op.reshaped(b.value, (*sizes[1], *(1,) * len(left), *columns), "columns")
        return _Term(op, op.add("mul", first, second, part="product"), letters)
    depth = math.prod(a.size(letter) for letter in inner)
    first = op.reshaped(a.value, (*sizes[0], math.prod(rows), depth), "rows")
    second = op.reshaped(b.value, (*sizes[1], math.prod(columns), depth), "columns")
    matrix = BatchMatmul(transposed=True)
    value = op.add("batch_matmul", first, second, attributes=matrix, part="product")
    return _Term(op, op.reshaped(value, (*batch_sizes, *rows, *columns), "axes"), letters)
