"""Determines which values are uniform in a work-group, as far as a compiler can tell.

WGSL allows a barrier only where control flow depends on uniform values alone. A kernel with a
barrier in a loop whose end is computed alike by all work-items has to prove it.
"""

from __future__ import annotations

from fourfold.kernel.expression import Expression
from fourfold.kernel.kernel import Kernel
from fourfold.kernel.statement import Barrier, Branch, Declare, Loop, Statement
from fourfold.kernel.walk import statements

# operations whose results may differ between work-items
_OWN = ("load", "global_id", "local_id", "guarded")


class Uniformity:
    """Names that are known to be uniform in a group."""

    def __init__(self, kernel: Kernel) -> None:
        self._names = {*kernel.sizes}

    def declare(self, statement: Declare) -> None:
        """Record a constant that is computed from uniform values."""
        if statement.constant and self._is_uniform(statement.value):
            self._names.add(str(statement.target.operands[0]))

    def enter(self, statement: Loop | Branch) -> bool:
        """Return whether a compiler accepts the barriers inside, if there are any."""
        if isinstance(statement, Branch):
            bodies = [*statement.body, *statement.otherwise]
            return not _waits(bodies) or self._is_uniform(statement.condition)
        limits = (statement.start, statement.stop, statement.step)
        uniform = all(map(self._is_uniform, limits))
        if uniform:
            self._names.add(str(statement.variable.operands[0]))
        return uniform or not _waits(statement.body)

    def _is_uniform(self, item: Expression) -> bool:
        if item.op == "name":
            return item.operands[0] in self._names
        parts = [part for part in item.operands if isinstance(part, Expression)]
        return item.op not in _OWN and all(map(self._is_uniform, parts))


def _waits(body: list[Statement]) -> bool:
    return any(isinstance(one, Barrier) for one in statements(body))
