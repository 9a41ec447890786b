"""Partitions: units of one target that run together, before those that depend on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from fourfold.formats.units import Unit, find_unit_dependencies
from fourfold.graph import Graph
from fourfold.plan.targets import GPU, NUMPY

Dependencies = Mapping[str, set[str]]
PartitionKey = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True)
class Partition:
    """Units that run together in one target, with their inputs and outputs."""

    target: str
    units: tuple[Unit, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(unit.name for unit in self.units)

    @property
    def key(self) -> PartitionKey:
        """The units, inputs and outputs by name. They determine the part of one model."""
        return self.names, self.inputs, self.outputs

    def graph(self, whole: Graph) -> Graph:
        """Return the part as a separate graph, with nodes in the order of the whole graph."""
        mine = {id(node) for unit in self.units for node in unit.nodes}
        nodes = tuple(node for node in whole.nodes if id(node) in mine)
        read = {name for node in nodes for name in node.reads}
        states = {name: after for name, after in whole.states.items() if name in read}
        return whole.with_nodes(
            nodes,
            inputs=(*self.inputs, *states),
            outputs=(*self.outputs, *states.values()),
            states=states,
        )


def make_partitions(
    graph: Graph,
    units: Sequence[Unit],
    targets: Mapping[str, str],
    bound: Iterable[frozenset[str]] = (),
) -> tuple[Partition, ...]:
    """Return as few partitions as possible: each takes all units that can run so far in its target.

    `bound` are units that must be in one partition, with all units between them.
    """
    units = _drop_unused_conversions(graph, units, targets)
    dependencies = _dependencies(units, bound)
    others = sorted({*targets.values()} - {GPU}, key=lambda target: (target == NUMPY, target))
    orders = [_group_units(units, targets, dependencies, first) for first in (GPU, *others)]
    best = min(orders, key=len)
    readers, results = _find_readers(units, targets), frozenset(graph.results)
    return tuple(_partition(graph, readers, results, targets, members) for members in best)


def _drop_unused_conversions(
    graph: Graph, units: Sequence[Unit], targets: Mapping[str, str]
) -> list[Unit]:
    """Drop units that only convert values for a target that does not read them."""
    needed, kept = set(graph.outputs), []
    for unit in reversed(units):
        if unit.in_file or needed.intersection(unit.outputs(targets[unit.name])):
            needed.update(unit.inputs(targets[unit.name]))
            kept.append(unit)
    return kept[::-1]


def _dependencies(units: Sequence[Unit], bound: Iterable[frozenset[str]]) -> Dependencies:
    """Return the units that must run before each; those of a bound group begin together."""
    dependencies = find_unit_dependencies(units)
    for group in bound:
        group = group.intersection(dependencies)
        outside = set[str]().union(*(dependencies[name] for name in group)) - group
        for name in group:
            dependencies[name] |= outside
    return dependencies


def _group_units(
    units: Sequence[Unit], targets: Mapping[str, str], dependencies: Dependencies, first: str
) -> list[list[Unit]]:
    """Return all units in groups of one target each, in an order in which the groups can run."""
    ready = _ReadyUnits(units, targets, dependencies)
    groups: list[list[Unit]] = []
    count, target = 0, first
    while count < len(units):
        group = ready.run(target)
        if group:
            groups.append(group)
        count += len(group)
        following = ready.next_target()
        assert following or count == len(units), f"units depend on each other: {units[0].name}"
        target = following or GPU
    return groups


class _ReadyUnits:
    """The units of each target whose dependencies have run, by number."""

    def __init__(
        self, units: Sequence[Unit], targets: Mapping[str, str], dependencies: Dependencies
    ) -> None:
        self._units = units
        self._targets = [targets[unit.name] for unit in units]
        numbers = {unit.name: number for number, unit in enumerate(units)}
        self._missing = [len(dependencies[unit.name]) for unit in units]
        self._readers: list[list[int]] = [[] for _ in units]
        self._ready: dict[str, list[int]] = {target: [] for target in self._targets}
        for number, unit in enumerate(units):
            for name in dependencies[unit.name]:
                self._readers[numbers[name]].append(number)
            if not self._missing[number]:
                self._ready[self._targets[number]].append(number)

    def run(self, target: str) -> list[Unit]:
        """Return the units that can run before any other target has to, in the order of repeated
        passes over all units.
        """
        pending = [(0, number) for number in sorted(self._ready.get(target, ()))]
        self._ready[target] = []
        group: list[Unit] = []
        while pending:
            turn, number = heappop(pending)
            group.append(self._units[number])
            for reader in self._readers[number]:
                self._missing[reader] -= 1
                if self._missing[reader]:
                    continue
                if self._targets[reader] == target:
                    heappush(pending, (turn + (reader < number), reader))
                else:
                    heappush(self._ready[self._targets[reader]], reader)
        return group

    def next_target(self) -> str | None:
        """Return the target of the first unit that can run now; None if there is none."""
        firsts = {target: numbers[0] for target, numbers in self._ready.items() if numbers}
        return min(firsts, key=lambda target: firsts[target], default=None)


def _find_readers(units: Iterable[Unit], targets: Mapping[str, str]) -> Mapping[str, list[str]]:
    """Return the units that read each value."""
    readers: dict[str, list[str]] = {}
    for unit in units:
        for value in unit.inputs(targets[unit.name]):
            readers.setdefault(value, []).append(unit.name)
    return readers


def _partition(
    graph: Graph,
    readers: Mapping[str, list[str]],
    results: frozenset[str],
    targets: Mapping[str, str],
    members: Sequence[Unit],
) -> Partition:
    target = targets[members[0].name]
    inside = {unit.name for unit in members}
    produced = dict.fromkeys(value for unit in members for value in unit.outputs(target))
    consumed = dict.fromkeys(value for unit in members for value in unit.inputs(target))
    inputs = tuple(
        value
        for value in consumed
        if not (value in produced or value in graph.constants or value in graph.states)
    )
    outputs = tuple(
        value
        for value in produced
        if value in results or not inside.issuperset(readers.get(value, ()))
    )
    return Partition(target, tuple(members), inputs, outputs)
