"""Looks at a kernel's tree: every statement, every expression once, or only what is special."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fourfold.kernel.expression import Expression
from fourfold.kernel.kernel import Kernel
from fourfold.kernel.signatures import SPECIAL_OPS
from fourfold.kernel.statement import (
    AwaitCopies,
    AwaitProducts,
    BeginProducts,
    Branch,
    CopyAhead,
    DiagonalMultiply,
    DotAccumulate,
    EndCopies,
    EndProducts,
    Loop,
    MatrixMultiply,
    Prefetch,
    ShowCopies,
    Statement,
    StoreRounded,
    StoreRoundedBlock,
    WarpgroupMultiply,
)

Node = Expression | Statement
SPECIAL_STATEMENTS = (
    DotAccumulate,
    MatrixMultiply,
    DiagonalMultiply,
    StoreRounded,
    StoreRoundedBlock,
    Prefetch,
    CopyAhead,
    EndCopies,
    AwaitCopies,
    ShowCopies,
    WarpgroupMultiply,
    BeginProducts,
    EndProducts,
    AwaitProducts,
)
_LEAVES = ("const", "name")


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
    found = [item for item in vars(statement).values() if isinstance(item, Expression)]
    return [*found, *statement.targets] if isinstance(statement, WarpgroupMultiply) else found


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


def special_nodes(kernels: Iterable[Kernel]) -> list[Node]:
    """The nodes for which a language may need more than a word: those of `SPECIAL_OPS` and
    `SPECIAL_STATEMENTS`. Plans are made in less time the less is looked at, so this is one loop.
    """
    found: list[Node] = []
    for kernel in kernels:
        seen: set[int] = set()
        waiting: list[object] = []
        for statement in statements(kernel.body):
            if isinstance(statement, SPECIAL_STATEMENTS):
                found.append(statement)
            waiting += vars(statement).values()
        while waiting:
            item = waiting.pop()
            if isinstance(item, Expression) and item.op not in _LEAVES and id(item) not in seen:
                seen.add(id(item))
                if item.op in SPECIAL_OPS:
                    found.append(item)
                waiting += item.operands
    return found
