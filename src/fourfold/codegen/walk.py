"""Iterators over a kernel's tree: all statements, all expressions once, or only special nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fourfold.codegen.expression import Expression
from fourfold.codegen.kernel import Kernel
from fourfold.codegen.signatures import SPECIAL_OPS
from fourfold.codegen.statement import (
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
    """Iterate over all statements; nested ones follow the statement that contains them."""
    for statement in body:
        yield statement
        if isinstance(statement, Loop):
            yield from statements(statement.body)
        elif isinstance(statement, Branch):
            yield from statements(statement.body)
            yield from statements(statement.otherwise)


def operands(statement: Statement) -> list[Expression]:
    """Return the expressions that a statement itself holds."""
    items = [item for item in vars(statement).values() if isinstance(item, Expression)]
    return [*items, *statement.targets] if isinstance(statement, WarpgroupMultiply) else items


def expressions(kernel: Kernel) -> Iterator[Expression]:
    """Iterate over all expressions of a kernel; each comes once."""
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
    """Return the nodes of `SPECIAL_OPS` and `SPECIAL_STATEMENTS`, which may need prelude functions.

    Written as one loop, because it takes part of the planning time.
    """
    special: list[Node] = []
    for kernel in kernels:
        seen: set[int] = set()
        waiting: list[object] = []
        for statement in statements(kernel.body):
            if isinstance(statement, SPECIAL_STATEMENTS):
                special.append(statement)
            waiting += vars(statement).values()
        while waiting:
            item = waiting.pop()
            if isinstance(item, Expression) and item.op not in _LEAVES and id(item) not in seen:
                seen.add(id(item))
                if item.op in SPECIAL_OPS:
                    special.append(item)
                waiting += item.operands
    return special
