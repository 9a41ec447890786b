"""y = a sequence of pointwise ops, each applied to the inputs or to earlier results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fourfold.codegen.expression import Expression
from fourfold.graph import NONE
from fourfold.ops.base import Case, Op, Types, registry
from fourfold.ops.base.rules import require
from fourfold.types import TensorType


@dataclass(frozen=True)
class Term:
    """One op; its operands are numbers: the inputs first, then the results of earlier terms."""

    op: str
    operands: tuple[int, ...]
    attributes: Any = NONE

    def __repr__(self) -> str:
        settings = "" if self.attributes == NONE else f"; {self.attributes}"
        return f"{self.op}({', '.join(map(str, self.operands))}{settings})"


@dataclass(frozen=True)
class Formula:
    """The terms in order; the last one is the result."""

    terms: tuple[Term, ...]

    def bound(self, bind: Callable[[object], object]) -> Formula:
        """Return the formula with the attributes of every term replaced by `bind(attributes)`."""
        terms = (replace(term, attributes=bind(term.attributes)) for term in self.terms)
        return Formula(tuple(terms))


def all_terms(attributes: object) -> list[Term]:
    """Return the terms of a formula with nested formulas expanded; empty for other attributes."""
    terms = attributes.terms if isinstance(attributes, Formula) else ()
    return [inner for term in terms for inner in all_terms(term.attributes) or [term]]


def infer(attributes: Formula, *types: TensorType | None) -> Types:
    types_so_far = [type for type in types if type is not None]
    require(len(types_so_far) == len(types) > 0, "formula", "an input is missing")
    require(len(attributes.terms) > 0, "formula", "it has no terms")
    for term in attributes.terms:
        fits = all(0 <= number < len(types_so_far) for number in term.operands)
        require(fits, "formula", f"{term} reads a result of a later term")
        op = registry()[term.op]
        require(op.pointwise is not None, "formula", f"{term.op} is not pointwise")
        types_so_far += op.infer(
            term.attributes, *(types_so_far[number] for number in term.operands)
        )
    return (types_so_far[-1],)


def reference(attributes: Formula, *arrays: np.ndarray) -> np.ndarray:
    values = list(arrays)
    for term in attributes.terms:
        operands = (values[number] for number in term.operands)
        values.append(np.asarray(registry()[term.op].reference(term.attributes, *operands)))
    return values[-1]


def pointwise(attributes: Formula, *operands: Expression) -> Expression:
    values = list(operands)
    for term in attributes.terms:
        rule = registry()[term.op].pointwise
        assert rule is not None
        values.append(rule(term.attributes, *(values[number] for number in term.operands)))
    return values[-1]


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
