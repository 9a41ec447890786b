"""Expressions of the kernel language: typed scalars and vectors, built with Python operators.

Kinds are 'float', 'half', 'int', 'uint', 'long' and 'bool'; widths 1, 2, 4, 8, 16. Integer division
and remainder are meant for non-negative numbers, for which Python and all GPU languages agree.
`Expression.op` is one of a closed set; operations that only some devices support are in
`intrinsics.py`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from fourfold.types import DType

Number = float | int | bool
Operand: TypeAlias = "Expression | float | int | bool"

_FOLD: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.floordiv,
    "%": operator.mod,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "&&": lambda a, b: a and b,
    "||": lambda a, b: a or b,
}
_NEUTRAL = {"+": 0, "-": 0, "*": 1, "/": 1}
# Functions of real numbers. `round_even` rounds to nearest with ties to even, `round_away` with
# ties away from zero.
UNARY_MATH = frozenset(
    ("exp", "log", "sqrt", "rsqrt", "tanh", "sin", "cos", "erf", "fabs", "floor", "ceil")
) | {"round_even", "round_away"}
BINARY_MATH = frozenset(("atan2", "fmod", "pow"))
MATH = UNARY_MATH | BINARY_MATH


@dataclass(frozen=True)
class Pointer:
    """A parameter or an array that can be indexed, with elements of `dtype` in memory."""

    name: str
    dtype: DType
    writable: bool = False
    local: bool = False
    width: int = 1  # elements per step; more than one for a shifted copy
    private: bool = False


@dataclass(eq=False, slots=True)
class Expression:
    """One value: `op` applied to `operands`.

    Compared by identity, so that a shared subexpression is computed once. Immutable by convention;
    `frozen=True` would make construction three times slower.
    """

    op: str
    operands: tuple[Any, ...]
    kind: str
    width: int = 1

    def __add__(self, other: Operand) -> Expression:
        return binary("+", self, other)

    def __radd__(self, other: Operand) -> Expression:
        return binary("+", other, self)

    def __sub__(self, other: Operand) -> Expression:
        return binary("-", self, other)

    def __rsub__(self, other: Operand) -> Expression:
        return binary("-", other, self)

    def __mul__(self, other: Operand) -> Expression:
        return binary("*", self, other)

    def __rmul__(self, other: Operand) -> Expression:
        return binary("*", other, self)

    def __truediv__(self, other: Operand) -> Expression:
        return binary("/", self, other)

    def __rtruediv__(self, other: Operand) -> Expression:
        return binary("/", other, self)

    def __floordiv__(self, other: Operand) -> Expression:
        return binary("/", self, other)

    def __rfloordiv__(self, other: Operand) -> Expression:
        return binary("/", other, self)

    def __mod__(self, other: Operand) -> Expression:
        return binary("%", self, other)

    def __lt__(self, other: Operand) -> Expression:
        return compare("<", self, other)

    def __le__(self, other: Operand) -> Expression:
        return compare("<=", self, other)

    def __gt__(self, other: Operand) -> Expression:
        return compare(">", self, other)

    def __ge__(self, other: Operand) -> Expression:
        return compare(">=", self, other)

    def equals(self, other: Operand) -> Expression:
        return compare("==", self, other)

    def differs(self, other: Operand) -> Expression:
        return compare("!=", self, other)

    def __and__(self, other: Operand) -> Expression:
        return compare("&&", self, other)

    def __or__(self, other: Operand) -> Expression:
        return compare("||", self, other)

    def __neg__(self) -> Expression:
        return Expression("neg", (self,), self.kind, self.width)

    def lane(self, index: int) -> Expression:
        """Return one element of a vector."""
        if self.op in ("vector", "const"):
            return (
                self.operands[index] if self.op == "vector" else const(self.operands[0], self.kind)
            )
        return self if self.width == 1 else Expression("lane", (self, index), self.kind)

    def part(self, index: int, width: int) -> Expression:
        """Return `width` neighbouring elements of a vector, starting at `index * width`."""
        return self if self.width == width else Expression("part", (self, index), self.kind, width)

    @property
    def number(self) -> Number | None:
        """The value of a constant; None for other expressions."""
        return self.operands[0] if self.op == "const" else None


def const(value: Number, kind: str = "", width: int = 1) -> Expression:
    natural = "bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "float"
    kind = kind or natural
    if kind in ("float", "half"):
        value = float(value)
    return Expression("const", (value,), kind, width)


def name(text: str, kind: str, width: int = 1) -> Expression:
    return Expression("name", (text,), kind, width)


def lift(value: Operand, kind: str = "") -> Expression:
    return value if isinstance(value, Expression) else const(value, kind)


def _pair(a: Operand, b: Operand) -> tuple[Expression, Expression]:
    """Convert both to one kind and width; numbers take the kind of the other operand."""
    if not isinstance(a, Expression):
        b = lift(b)
        a = const(a, _literal_kind(a, b.kind))
    b = b if isinstance(b, Expression) else const(b, _literal_kind(b, a.kind))
    if a.width != b.width:
        a, b = widen(a, max(a.width, b.width)), widen(b, max(a.width, b.width))
    if a.kind != b.kind and "bool" not in (a.kind, b.kind):
        kind = next(kind for kind in ("float", "half", "long", "int") if kind in (a.kind, b.kind))
        a, b = convert(a, kind), convert(b, kind)
    return a, b


def _literal_kind(value: Number, partner: str) -> str:
    is_fraction = isinstance(value, float) and not float(value).is_integer()
    return "float" if is_fraction and partner == "int" else "" if partner == "bool" else partner


def widen(value: Expression, width: int) -> Expression:
    """Repeat a scalar in every lane of a vector."""
    if value.width == width:
        return value
    if value.op == "const":
        return const(value.operands[0], value.kind, width)
    return Expression("splat", (value,), value.kind, width)


_IDENTITIES = {("*", 1.0), ("-", 0.0)}  # with these right operands, the result equals the left one


def binary(op: str, a: Operand, b: Operand) -> Expression:
    a, b = _pair(a, b)
    if a.kind in ("int", "long"):
        folded = _fold(op, a, b)
        if folded is not None:
            return folded
    elif (op, b.number) in _IDENTITIES:
        return a
    return Expression(op, (a, b), a.kind, a.width)


def _fold(op: str, a: Expression, b: Expression) -> Expression | None:
    """Fold integer arithmetic on constants, which keeps generated text short and indices exact."""
    x, y = a.number, b.number
    if x is not None and y is not None:
        return const(_FOLD[op](x, y), a.kind, a.width)
    if y is not None and _NEUTRAL.get(op) == y:
        return a
    if x is not None and op in "+*" and _NEUTRAL[op] == x:
        return b
    if (op == "*" and 0 in (x, y)) or (op == "/" and x == 0) or (op == "%" and (y == 1 or x == 0)):
        return const(0, a.kind, a.width)
    return None


def compare(op: str, a: Operand, b: Operand) -> Expression:
    a, b = _pair(a, b)
    x, y = a.number, b.number
    if x is not None and y is not None:
        return const(bool(_FOLD[op](x, y)), "bool", a.width)
    if op in ("&&", "||"):
        constant, other = (x, b) if x is not None else (y, a)
        if constant is not None:
            return (
                other if bool(constant) == (op == "&&") else const(bool(constant), "bool", a.width)
            )
    return Expression(op, (a, b), "bool", a.width)


def global_id(axis: int) -> Expression:
    """Return this work-item's position in the grid."""
    return Expression("global_id", (axis,), "int")


def local_id(axis: int) -> Expression:
    """Return this work-item's position in its group."""
    return Expression("local_id", (axis,), "int")


def bitcast(x: Expression, kind: str) -> Expression:
    """Reinterpret 32-bit values, or lanes of them, as another kind."""
    return x if x.kind == kind else Expression("bitcast", (x,), kind, x.width)


def math(function: str, *operands: Operand) -> Expression:
    """Apply a function of the set MATH, lane by lane."""
    first = lift(operands[0])
    lifted = [lift(item, first.kind) for item in operands]
    width = max(item.width for item in lifted)
    wide = (widen(item, width) for item in lifted)
    return Expression("math", (function, *wide), first.kind, width)


def exp(x: Operand) -> Expression:
    return math("exp", x)


def log(x: Operand) -> Expression:
    return math("log", x)


def sqrt(x: Operand) -> Expression:
    return math("sqrt", x)


def rsqrt(x: Operand) -> Expression:
    return math("rsqrt", x)


def tanh(x: Operand) -> Expression:
    return math("tanh", x)


def floor(x: Operand) -> Expression:
    return math("floor", x)


def ceil(x: Operand) -> Expression:
    return math("ceil", x)


def round_even(x: Operand) -> Expression:
    """Round to the nearest integer; ties go to the even one."""
    return math("round_even", x)


def round_away(x: Operand) -> Expression:
    """Round to the nearest integer; ties go away from zero."""
    return math("round_away", x)


def sin(x: Operand) -> Expression:
    return math("sin", x)


def cos(x: Operand) -> Expression:
    return math("cos", x)


def arc_tangent(y: Operand, x: Operand) -> Expression:
    """Return the angle of the point (x, y), from -pi to pi."""
    y, x = _pair(y, x)
    return math("atan2", y, x)


def remainder(a: Operand, b: Operand) -> Expression:
    """Return the remainder of a / b, with the sign of a."""
    a, b = _pair(a, b)
    return a % b if a.kind == "int" else math("fmod", a, b)


def erf(x: Operand) -> Expression:
    return math("erf", x)


def power(a: Operand, b: Operand) -> Expression:
    a, b = _pair(a, b)
    return math("pow", a, b)


def absolute(x: Operand) -> Expression:
    x = lift(x)
    return where(x < 0, -x, x) if x.kind == "int" else math("fabs", x)


def where(condition: Operand, yes: Operand, no: Operand) -> Expression:
    """Select `yes` if the condition holds, else `no`, lane by lane."""
    condition = lift(condition)
    a, b = _pair(yes, no)
    if condition.number is not None:
        return a if condition.number else b
    width = max(condition.width, a.width)
    if condition.width > 1:
        condition, a, b = widen(condition, width), widen(a, width), widen(b, width)
    return Expression("where", (condition, a, b), a.kind, width)


def maximum(a: Operand, b: Operand) -> Expression:
    """Return the larger operand; a NaN in `a` is kept."""
    a, b = _pair(a, b)
    folded = _fold_constants(max, a, b)
    return folded if folded is not None else where(a < b, b, a)


def minimum(a: Operand, b: Operand) -> Expression:
    """Return the smaller operand; a NaN in `a` is kept."""
    a, b = _pair(a, b)
    folded = _fold_constants(min, a, b)
    return folded if folded is not None else where(a > b, b, a)


def _fold_constants(choose: Callable[..., Any], a: Expression, b: Expression) -> Expression | None:
    if a.number is None or b.number is None:
        return None
    return const(choose(a.number, b.number), a.kind, a.width)


def convert(x: Operand, kind: str) -> Expression:
    """Convert to another kind; float to int truncates, conversion to bool tests for nonzero."""
    x = lift(x)
    if x.kind == kind:
        return x
    if x.number is not None:
        number = x.number
        plain = (
            bool(number)
            if kind == "bool"
            else int(number)
            if kind in ("int", "long")
            else float(number)
        )
        return const(plain, kind, x.width)
    if kind == "bool":
        return Expression("!=", (x, const(0, x.kind, x.width)), "bool", x.width)
    if x.kind == "bool":
        return where(x, const(1, kind, x.width), const(0, kind, x.width))
    return Expression("convert", (x,), kind, x.width)


def vector(*lanes: Expression) -> Expression:
    """Join scalars or short vectors into a vector."""
    return Expression("vector", lanes, lanes[0].kind, sum(item.width for item in lanes))


def load(pointer: Pointer, index: Operand, kind: str, width: int = 1) -> Expression:
    """Load `width` elements at `index * width`."""
    return Expression("load", (pointer, lift(index)), kind, width)


def guarded(inside: Expression, value: Expression, otherwise: Operand = 0) -> Expression:
    """Evaluate `value` only if the condition holds; it may read out of bounds otherwise."""
    fallback = widen(lift(otherwise, value.kind), value.width)
    if inside.number is not None:
        return value if inside.number else fallback
    return Expression("guarded", (inside, value, fallback), value.kind, value.width)
