"""Dependencies between kernels: which must finish before another begins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fourfold.graph import Graph
from fourfold.kernel.context import Scratch
from fourfold.kernel.kernel import BufferArgument, Kernel
from fourfold.kernel.location import Location
from fourfold.lower.kernels import Built

NOTHING: frozenset[int] = frozenset()


def find_dependencies(
    graph: Graph, built: Sequence[Built], fixed: Mapping[str, int]
) -> list[frozenset[int]]:
    """Return, for each kernel, the numbers of those it depends on.

    `fixed` are values with a buffer of their own. A value is written once, so a kernel depends on
    those that produce what its node reads. Views have no kernel: their readers depend on the
    producers of the viewed value.
    """
    numbers: dict[str, list[int]] = {}
    for number, item in enumerate(built):
        numbers.setdefault(item.node.outputs[0], []).append(number)
    makers: dict[str, frozenset[int]] = {}
    dependencies = [*_taken_over(built, fixed)]
    for node in graph.nodes:
        before = NOTHING.union(*(makers.get(name, NOTHING) for name in node.reads))
        own = numbers.get(node.outputs[0], [])
        for position, number in enumerate(own):
            kernel = built[number].kernel
            siblings = {other for other in own[:position] if _touch(built[other].kernel, kernel)}
            dependencies[number] |= before | siblings
        makers.update(dict.fromkeys(node.outputs, frozenset(own) or before))
    return dependencies


def _touch(before: Kernel, after: Kernel) -> bool:
    """Return whether one of two kernels of a node writes what the other reads or writes.

    If both write to one value at different locations, they produce different parts of it.
    """
    for one in before.buffers:
        for other in after.buffers:
            writes = one.pointer.writable, other.pointer.writable
            parts = all(writes) and one.memory != other.memory
            root = _root(one)
            if root is not None and root == _root(other) and any(writes) and not parts:
                return True
    return False


def _taken_over(built: Sequence[Built], fixed: Mapping[str, int]) -> Iterator[frozenset[int]]:
    """Yield the kernels each kernel waits for because its buffer held another value.

    That value is a state, of which the kernel produces the next one.
    """
    users: dict[int, dict[str, set[int]]] = {}
    for number, item in enumerate(built):
        earlier_users: set[int] = set()
        for root in {_root(argument) for argument in item.kernel.buffers} & {*fixed}:
            values = users.setdefault(fixed[str(root)], {})
            earlier_users.update(*(numbers for other, numbers in values.items() if other != root))
            values.setdefault(str(root), set()).add(number)
        yield frozenset(earlier_users - {number})


def _root(argument: BufferArgument) -> str | None:
    memory = argument.memory
    return memory.root if isinstance(memory, Location | Scratch) else None
