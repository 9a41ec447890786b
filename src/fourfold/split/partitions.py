"""Parts: units of one target that run together. A part needs nothing of those that come later."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fourfold.graph import Graph
from fourfold.split.units import GPU, LITERT, NUMPY, TARGETS, Unit, producers_of

__all__ = ["GPU", "LITERT", "NUMPY", "Partition", "make_partitions"]


@dataclass(frozen=True)
class Partition:
    """Units that run together in one target, what they get and what they give."""

    target: str
    units: tuple[Unit, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(unit.name for unit in self.units)

    def graph(self, whole: Graph) -> Graph:
        """The part as a graph of its own, its nodes in the order of the whole."""
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
    """As few parts as possible: each takes all that can run by now in its target.

    `bound` are units that must be in one part, with all that lies between them.
    """
    units = _needed(graph, units, targets)
    needs = _needs(units, bound)
    waves = [_waves(units, targets, needs, first) for first in TARGETS]
    best = min(waves, key=len)
    return tuple(_part(graph, units, targets, members) for members in best)


def _needed(graph: Graph, units: Sequence[Unit], targets: Mapping[str, str]) -> list[Unit]:
    """The units without those that only convert values for a target where nobody reads them."""
    wanted, kept = set(graph.outputs), []
    for unit in reversed(units):
        if unit.in_file or wanted.intersection(unit.outputs(targets[unit.name])):
            wanted.update(unit.inputs(targets[unit.name]))
            kept.append(unit)
    return kept[::-1]


Needs = Mapping[str, set[str]]


def _needs(units: Sequence[Unit], bound: Iterable[frozenset[str]]) -> Needs:
    """The units that must have run before each; what binds units lets them begin together."""
    producer = producers_of(units)
    needs = {
        unit.name: {producer[v] for v in unit.needs if v in producer} - {unit.name}
        for unit in units
    }
    for group in bound:
        group = group.intersection(needs)
        outside = set[str]().union(*(needs[name] for name in group)) - group
        for name in group:
            needs[name] |= outside
    return needs


def _waves(
    units: Sequence[Unit], targets: Mapping[str, str], needs: Needs, first: str
) -> list[list[Unit]]:
    done: set[str] = set()
    left, target = list(units), first
    waves: list[list[Unit]] = []
    while left:
        wave = _wave(left, targets, needs, done, target)
        if wave:
            waves.append(wave)
        left = [unit for unit in left if unit.name not in done]
        target = _next_target(left, targets, needs, done)
    return waves


def _wave(
    left: Sequence[Unit], targets: Mapping[str, str], needs: Needs, done: set[str], target: str
) -> list[Unit]:
    """Every unit of a target that can run before any other target has to; counts them as done."""
    wave: list[Unit] = []
    waiting = [unit for unit in left if targets[unit.name] == target]
    while True:
        count = len(wave)
        for unit in waiting:
            if unit.name not in done and needs[unit.name] <= done:
                wave.append(unit)
                done.add(unit.name)
        if len(wave) == count:
            return wave


def _next_target(
    left: Sequence[Unit], targets: Mapping[str, str], needs: Needs, done: set[str]
) -> str:
    """The target of the first unit that could run now."""
    ready = (unit for unit in left if needs[unit.name] <= done)
    found = next((targets[unit.name] for unit in ready), None)
    assert found is not None or not left, f"units wait for each other: {left[0].name}"
    return found or GPU


def _part(
    graph: Graph, units: Sequence[Unit], targets: Mapping[str, str], members: Sequence[Unit]
) -> Partition:
    target = targets[members[0].name]
    inside = {unit.name for unit in members}
    given = dict.fromkeys(value for unit in members for value in unit.outputs(target))
    taken = dict.fromkeys(value for unit in members for value in unit.inputs(target))
    read = {
        value
        for unit in units
        if unit.name not in inside
        for value in unit.inputs(targets[unit.name])
    }
    read |= set(graph.results)
    known = {*given, *graph.constants, *graph.states}
    inputs = tuple(v for v in taken if v not in known)
    return Partition(target, tuple(members), inputs, tuple(v for v in given if v in read))
