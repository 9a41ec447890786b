"""Looks at a kernel's tree: every statement, and every expression once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fourfold.kernel.expression import Expression
from fourfold.kernel.kernel import Kernel
from fourfold.kernel.statement import Branch, Loop, Statement


def statements(body: Iterable[Statement]) -> Iterator[Statement]:
    """All statements, those inside of others behind them."""
    for statement in body:
        yield statement
        if isinstance(statement, Loop):
            yield from statements(statement.body)
        elif isinstance(statement, Branch):
            yield from statements(statement.body)
            yield from statements(statement.otherwise)


def operands(statement: Statement) -> list[Expression]:
    """The expressions that a statement itself holds."""
    return [item for item in vars(statement).values() if isinstance(item, Expression)]


def expressions(kernel: Kernel) -> Iterator[Expression]:
    """All expressions of a kernel; one that is used several times comes once."""
    seen: set[int] = set()
    for statement in statements(kernel.body):
        waiting = operands(statement)
        while waiting:
            item = waiting.pop()
            if id(item) not in seen:
                seen.add(id(item))
                yield item
                waiting += (part for part in item.operands if isinstance(part, Expression))
