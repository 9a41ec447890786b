"""Estimates the number of loop iterations of a work-item from a kernel's sizes."""

from __future__ import annotations

from collections.abc import Iterable

from fourfold.kernel.expression import Expression
from fourfold.kernel.kernel import Kernel
from fourfold.kernel.statement import Branch, Declare, Loop, Statement

_Values = dict[str, int]  # values of names


def loop_rounds(kernel: Kernel) -> int:
    """Return the iterations of all loops, inner ones once for each iteration of the outer one.

    A loop whose end the kernel computes from data counts once.
    """
    return _rounds(kernel.body, dict(kernel.sizes))


def _rounds(body: Iterable[Statement], values: _Values) -> int:
    total = 0
    for statement in body:
        match statement:
            case Declare(target, value):
                number = _value(value, values)
                if number is not None:
                    values[str(target.operands[0])] = number
            case Loop(variable, start, stop, step):
                inner = _rounds(statement.body, {**values, str(variable.operands[0]): 0})
                total += _trips(start, stop, step, values) * (1 + inner)
            case Branch():
                total += max(_rounds(statement.body, values), _rounds(statement.otherwise, values))
    return total


def _trips(start: Expression, stop: Expression, step: Expression, values: _Values) -> int:
    """Return the iterations of the work-item that begins first."""
    end, by = _value(stop, values), _value(step, values)
    if end is None or not by:
        return 1
    return max(0, -(-(end - (_value(start, values) or 0)) // by))


def _value(item: Expression, values: _Values) -> int | None:
    """Return the value of an integer expression if it is known, of a selection the larger operand.

    A selection with an unknown operand is unknown: for example the end of a window, which the
    work-item computes, limited by the end of all windows.
    """
    if item.kind != "int" or item.width != 1:
        return None
    if item.number is not None:
        return int(item.number)
    if item.op == "name":
        return values.get(str(item.operands[0]))
    if item.op == "where":
        chosen = [_value(part, values) for part in item.operands[1:]]
        numbers = [one for one in chosen if one is not None]
        return max(numbers) if len(numbers) == len(chosen) else None
    if item.op not in ("+", "-", "*", "/", "%"):
        return None
    a, b = (_value(part, values) for part in item.operands)
    return None if a is None or b is None else _computed(item.op, a, b)


def _computed(op: str, a: int, b: int) -> int | None:
    if op in ("/", "%"):
        return None if b == 0 else a // b if op == "/" else a % b
    return a + b if op == "+" else a - b if op == "-" else a * b
