"""Partitions: units of one target that run together, before those that depend on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

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
    return tuple(_partition(graph, units, targets, members) for members in best)


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
    done: set[str] = set()
    left, target = list(units), first
    groups: list[list[Unit]] = []
    while left:
        waiting = [unit for unit in left if targets[unit.name] == target]
        group = _run_ready(waiting, dependencies, done)
        if group:
            groups.append(group)
        left = [unit for unit in left if unit.name not in done]
        target = _next_target(left, targets, dependencies, done)
    return groups


def _run_ready(waiting: Sequence[Unit], dependencies: Dependencies, done: set[str]) -> list[Unit]:
    """Return the units that can run before any other target has to, and add them to `done`."""
    group: list[Unit] = []
    while True:
        count = len(group)
        for unit in waiting:
            if unit.name not in done and dependencies[unit.name] <= done:
                group.append(unit)
                done.add(unit.name)
        if len(group) == count:
            return group


def _next_target(
    left: Sequence[Unit], targets: Mapping[str, str], dependencies: Dependencies, done: set[str]
) -> str:
    """Return the target of the first unit that can run now."""
    ready = (unit for unit in left if dependencies[unit.name] <= done)
    target = next((targets[unit.name] for unit in ready), None)
    assert target is not None or not left, f"units depend on each other: {left[0].name}"
    return target or GPU


def _partition(
    graph: Graph, units: Sequence[Unit], targets: Mapping[str, str], members: Sequence[Unit]
) -> Partition:
    target = targets[members[0].name]
    inside = {unit.name for unit in members}
    produced = dict.fromkeys(value for unit in members for value in unit.outputs(target))
    consumed = dict.fromkeys(value for unit in members for value in unit.inputs(target))
    read = {
        value
        for unit in units
        if unit.name not in inside
        for value in unit.inputs(targets[unit.name])
    }
    read |= set(graph.results)
    available = {*produced, *graph.constants, *graph.states}
    inputs = tuple(v for v in consumed if v not in available)
    return Partition(target, tuple(members), inputs, tuple(v for v in produced if v in read))
