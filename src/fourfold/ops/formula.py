"""y = one pointwise op after the other, each on the inputs or on what came before it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fourfold.graph import NONE
from fourfold.kernel.expression import Expression
from fourfold.op import Case, Op, Types
from fourfold.op.registry import registry
from fourfold.op.rules import require
from fourfold.types import TensorType


@dataclass(frozen=True)
class Term:
    """One op. Its operands are numbers: those of the inputs, and then those of earlier terms."""

    op: str
    operands: tuple[int, ...]
    attributes: Any = NONE

    def __repr__(self) -> str:
        settings = "" if self.attributes == NONE else f"; {self.attributes}"
        return f"{self.op}({', '.join(map(str, self.operands))}{settings})"


@dataclass(frozen=True)
class Formula:
    """The terms in order; the last is the result."""

    terms: tuple[Term, ...]

    def bound(self, bind: Callable[[object], object]) -> Formula:
        """The same with other attributes for every term."""
        terms = (replace(term, attributes=bind(term.attributes)) for term in self.terms)
        return Formula(tuple(terms))


def all_terms(attributes: object) -> list[Term]:
    """The terms of a formula, with those of a formula in its place; none of other attributes."""
    terms = attributes.terms if isinstance(attributes, Formula) else ()
    return [inner for term in terms for inner in all_terms(term.attributes) or [term]]


def infer(attributes: Formula, *types: TensorType | None) -> Types:
    known = [type for type in types if type is not None]
    require(len(known) == len(types) > 0, "formula", "an input is missing")
    require(len(attributes.terms) > 0, "formula", "it has no terms")
    for term in attributes.terms:
        fits = all(0 <= number < len(known) for number in term.operands)
        require(fits, "formula", f"{term} reads what is not there yet")
        op = registry()[term.op]
        require(op.pointwise is not None, "formula", f"{term.op} looks at more than one element")
        known += op.infer(term.attributes, *(known[number] for number in term.operands))
    return (known[-1],)


def reference(attributes: Formula, *arrays: np.ndarray) -> np.ndarray:
    known = list(arrays)
    for term in attributes.terms:
        operands = (known[number] for number in term.operands)
        known.append(np.asarray(registry()[term.op].reference(term.attributes, *operands)))
    return known[-1]


def pointwise(attributes: Formula, *operands: Expression) -> Expression:
    known = list(operands)
    for term in attributes.terms:
        rule = registry()[term.op].pointwise
        assert rule is not None
        known.append(rule(term.attributes, *(known[number] for number in term.operands)))
    return known[-1]


_GATE = Formula((Term("logistic", (0,)), Term("tanh", (1,)), Term("mul", (2, 3))))
_CELL = Formula(
    (
        Term("logistic", (0,)),
        Term("mul", (4, 1)),
        Term("formula", (2, 3), _GATE),
        Term("add", (5, 6)),
    )
)

OP = Op(
    name="formula",
    attributes=Formula,
    infer=infer,
    reference=reference,
    pointwise=pointwise,
    cases=(
        Case(("f32[7]", "f32[7]"), _GATE),
        Case(("f32[2,5,7,13]", "f32[2,5,7,13]"), _GATE),
        Case(("f32[3,5]", "f32[3,5]", "f32[3,5]", "f32[3,5]"), _CELL),
        Case(("f32[2,5,7,3]", "f32[3]", "f32[2,1,1,3]", "f32[2,1,7,3]"), _CELL, constants=(1,)),
        Case(("f32[1,11]",), Formula((Term("square", (0,)), Term("add", (1, 0))))),
        Case(
            ("f32[3,11]", "f32[]"),
            Formula((Term("less", (0, 1)), Term("select", (2, 0, 1)), Term("sub", (3, 0)))),
            constants=(1,),
        ),
    ),
)
