"""Which values are the same in all work-items of a group, as far as a compiler can tell.

WGSL takes a barrier only where control flow depends on such values alone. A kernel that waits in a
loop whose end all have computed alike has to say so.
"""

from __future__ import annotations

from fourfold.kernel.expression import Expression
from fourfold.kernel.kernel import Kernel
from fourfold.kernel.statement import Barrier, Branch, Declare, Loop, Statement
from fourfold.kernel.walk import statements

_OWN = ("load", "global_id", "local_id", "guarded")  # what may differ between work-items


class Uniformity:
    """Names that are known to be the same everywhere in a group."""

    def __init__(self, kernel: Kernel) -> None:
        self._names = {*kernel.sizes}

    def declare(self, statement: Declare) -> None:
        """A constant of values that are the same is the same."""
        if statement.constant and self._is_uniform(statement.value):
            self._names.add(str(statement.target.operands[0]))

    def enter(self, statement: Loop | Branch) -> bool:
        """Whether a compiler takes the barriers inside, if there are any."""
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
