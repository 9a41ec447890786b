"""Scope rules: names are valid from their declaration to the end of its block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from fourfold.kernel.expression import Expression, Pointer
from fourfold.kernel.kernel import Kernel
from fourfold.kernel.statement import (
    Assign,
    Branch,
    CopyAhead,
    Declare,
    DiagonalMultiply,
    DotAccumulate,
    LocalArray,
    Loop,
    MatrixMultiply,
    Shift,
    Statement,
    Store,
    WarpgroupMultiply,
)
from fourfold.kernel.walk import operands


def find_scope_errors(kernel: Kernel) -> Iterator[str]:
    """Yield names used out of scope or declared twice, and constants that are changed."""
    names = dict.fromkeys(kernel.sizes, False)
    pointers = {argument.pointer.name for argument in kernel.buffers}
    pointers |= {array.pointer.name for array in kernel.arrays}
    outside = _Block(names, pointers, {})
    for statement in kernel.body:
        if isinstance(statement, LocalArray):
            outside.declare_array(statement)
    yield from outside.look_at(kernel.body)


@dataclass
class _Block:
    """Declarations visible in a block: names (true if variable), pointers, local arrays."""

    names: dict[str, bool]
    pointers: set[str]
    arrays: dict[str, LocalArray]
    seen: set[int] = field(default_factory=set)

    def declare_array(self, array: LocalArray) -> None:
        self.pointers.add(array.pointer.name)
        self.arrays[array.pointer.name] = array

    def look_at(self, body: list[Statement]) -> Iterator[str]:
        for statement in body:
            yield from self._uses(statement)
            yield from self._changes(statement)
            yield from self._declares(statement)
            yield from self._inner(statement)

    def _inner(self, statement: Statement) -> Iterator[str]:
        bodies: list[list[Statement]] = []
        inside = self._inside()
        if isinstance(statement, Loop):
            inside.names[str(statement.variable.operands[0])] = False
            bodies = [statement.body]
        elif isinstance(statement, Branch):
            bodies = [statement.body, statement.otherwise]
        for body in bodies:
            yield from inside._inside().look_at(body)

    def _inside(self) -> _Block:
        return _Block(dict(self.names), set(self.pointers), self.arrays, set(self.seen))

    def _uses(self, statement: Statement) -> Iterator[str]:
        pointers = [item for item in vars(statement).values() if isinstance(item, Pointer)]
        if isinstance(statement, Declare | Loop):
            waiting = operands(statement)[1:]
        else:
            waiting = operands(statement)
        while waiting:
            item = waiting.pop()
            if id(item) in self.seen:
                continue
            self.seen.add(id(item))
            if item.op == "name" and item.operands[0] not in self.names:
                yield f"{item.operands[0]!r} is used out of scope"
            pointers += [part for part in item.operands if isinstance(part, Pointer)]
            waiting += [part for part in item.operands if isinstance(part, Expression)]
            if item.op == "load":
                yield from self._fits_array(item.operands[0], item)
        if isinstance(statement, Store):
            yield from self._fits_array(statement.pointer, statement.value)
        if isinstance(statement, CopyAhead):
            yield from self._fits_array(statement.target, statement.value)
        targets = [statement.target] if isinstance(statement, Shift) else []
        for pointer in pointers:
            if pointer not in targets and pointer.name not in self.pointers:
                yield f"pointer {pointer.name!r} is used out of scope"

    def _fits_array(self, pointer: Pointer, value: Expression) -> Iterator[str]:
        """Check that accesses to local memory have the element type of the array."""
        array = self.arrays.get(pointer.name)
        if array is not None and (array.kind, array.width) != (value.kind, value.width):
            yield f"{value.kind}{value.width} is not the element type of {pointer.name!r}"

    def _changes(self, statement: Statement) -> Iterator[str]:
        targets: tuple[Expression, ...] = ()
        if isinstance(statement, Assign | DotAccumulate | MatrixMultiply | DiagonalMultiply):
            targets = (statement.target,)
        elif isinstance(statement, WarpgroupMultiply):
            targets = statement.targets
        for target in targets:
            title = target.operands[0]
            if target.op != "name" or not self.names.get(title, False):
                yield f"{title!r} is assigned but is not a variable"

    def _declares(self, statement: Statement) -> Iterator[str]:
        if isinstance(statement, Declare):
            title = str(statement.target.operands[0])
            if title in self.names or title in self.pointers:
                yield f"{title!r} is declared twice"
            self.names[title] = not statement.constant
        elif isinstance(statement, Shift):
            self.pointers.add(statement.target.name)
