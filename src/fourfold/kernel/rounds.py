"""How many rounds the loops of a work-item make, as far as a kernel's sizes tell."""

from __future__ import annotations

from collections.abc import Iterable

from fourfold.kernel.expression import Expression
from fourfold.kernel.kernel import Kernel
from fourfold.kernel.statement import Branch, Declare, Loop, Statement

_Known = dict[str, int]  # values of names


def loop_rounds(kernel: Kernel) -> int:
    """Those of all loops together, inner ones once for each round of an outer one. A loop whose end
    is computed by the kernel from what it reads counts once.
    """
    return _rounds(kernel.body, dict(kernel.sizes))


def _rounds(body: Iterable[Statement], known: _Known) -> int:
    total = 0
    for statement in body:
        match statement:
            case Declare(target, value):
                number = _value(value, known)
                if number is not None:
                    known[str(target.operands[0])] = number
            case Loop(variable, start, stop, step):
                inner = _rounds(statement.body, {**known, str(variable.operands[0]): 0})
                total += _trips(start, stop, step, known) * (1 + inner)
            case Branch():
                total += max(_rounds(statement.body, known), _rounds(statement.otherwise, known))
    return total


def _trips(start: Expression, stop: Expression, step: Expression, known: _Known) -> int:
    """As many as the work-item makes that begins first."""
    end, by = _value(stop, known), _value(step, known)
    if end is None or not by:
        return 1
    return max(0, -(-(end - (_value(start, known) or 0)) // by))


def _value(item: Expression, known: _Known) -> int | None:
    """A whole number, if it is known; the larger one of two that a condition chooses from. Where
    one of these is not known, neither is the number: the end of a window, which the work-item
    computes, and the limit of all windows.
    """
    if item.kind != "int" or item.width != 1:
        return None
    if item.number is not None:
        return int(item.number)
    if item.op == "name":
        return known.get(str(item.operands[0]))
    if item.op == "where":
        chosen = [_value(part, known) for part in item.operands[1:]]
        numbers = [one for one in chosen if one is not None]
        return max(numbers) if len(numbers) == len(chosen) else None
    if item.op not in ("+", "-", "*", "/", "%"):
        return None
    a, b = (_value(part, known) for part in item.operands)
    return None if a is None or b is None else _computed(item.op, a, b)


def _computed(op: str, a: int, b: int) -> int | None:
    if op in ("/", "%"):
        return None if b == 0 else a // b if op == "/" else a % b
    return a + b if op == "+" else a - b if op == "-" else a * b
