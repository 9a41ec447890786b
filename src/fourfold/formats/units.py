"""Units: the nodes that one operator of the file was converted to. They are placed together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter

from fourfold.formats import SourceGraph
from fourfold.graph import Graph, Node
from fourfold.ops.foreign import Foreign
from fourfold.plan.targets import GPU, runs_operators


@dataclass(frozen=True)
class Unit:
    """Nodes of one operator. `reads_in_file` are its inputs if the operator itself runs."""

    name: str
    title: str
    nodes: tuple[Node, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    reads_in_file: tuple[str, ...] = ()
    writes_in_file: tuple[str, ...] = ()
    in_file: bool = False

    @cached_property
    def foreign(self) -> Foreign | None:
        """The operator of the file, if no rule converts it."""
        attributes = (node.attributes for node in self.nodes)
        return next((item for item in attributes if isinstance(item, Foreign)), None)

    def inputs(self, target: str) -> tuple[str, ...]:
        return self.reads_in_file if runs_operators(target) else self.reads

    def outputs(self, target: str) -> tuple[str, ...]:
        return self.writes_in_file if runs_operators(target) else self.writes

    @property
    def required(self) -> set[str]:
        """The values that must exist before the unit can run in any target."""
        return {*self.reads, *self.reads_in_file}


@dataclass(frozen=True)
class UnitSupport:
    """Targets that can run a unit: for each target '' or the reason why not.

    Better CPU targets come first.
    """

    unit: str
    reasons: Mapping[str, str]

    def allows(self, target: str) -> bool:
        return not self.reasons[target]

    @property
    def cpu_target(self) -> str:
        """The CPU target that runs the unit; '' if none can."""
        return next((one for one in self.reasons if one != GPU and self.allows(one)), "")


def find_units(graph: Graph, origin: SourceGraph | None) -> tuple[Unit, ...]:
    """Return the units in an order in which they can run."""
    names = _group_names(graph, origin)
    groups: dict[str, list[Node]] = {}
    for node, name in zip(graph.nodes, names, strict=True):
        groups.setdefault(name, []).append(node)
    forms = _forms(graph, origin)
    units = {name: _unit(graph, name, nodes, origin, forms) for name, nodes in groups.items()}
    return tuple(units[name] for name in sort_units(units.values()))


def _group_names(graph: Graph, origin: SourceGraph | None) -> list[str]:
    names = [node.name or (node.outputs[0] if node.outputs else node.op) for node in graph.nodes]
    return names if origin is None else [origin.unit(name) for name in names]


def _forms(graph: Graph, origin: SourceGraph | None) -> Mapping[str, str]:
    """Return the names of values that the graph has only in another form."""
    values = [*graph.inputs, *(value for node in graph.nodes for value in node.outputs)]
    if origin is None:
        return {}
    tensors = {origin.tensor(value): value for value in values if value in origin.values}
    others = {origin.tensor(value): value for value in reversed(values)}
    return {
        name: others[number]
        for name, number in origin.values.items()
        if number not in tensors and number in others
    }


def _unit(
    graph: Graph,
    name: str,
    nodes: list[Node],
    origin: SourceGraph | None,
    forms: Mapping[str, str],
) -> Unit:
    writes = tuple(value for node in nodes for value in node.outputs)
    own = set(writes)
    reads = dict.fromkeys(
        value
        for node in nodes
        for value in node.reads
        if value not in own and not graph.is_constant(value)
    )
    if origin is None or name not in origin.titles:
        return Unit(name, nodes[0].op, tuple(nodes), tuple(reads), writes)
    values = dict.fromkeys((*origin.writes(name), *writes))
    return Unit(
        name=name,
        title=origin.titles[name],
        nodes=tuple(nodes),
        reads=tuple(reads),
        writes=writes,
        reads_in_file=tuple(forms.get(value, value) for value in origin.reads(name)),
        writes_in_file=tuple(value for value in values if origin.tensor(value) is not None),
        in_file=True,
    )


def find_unit_dependencies(units: Iterable[Unit]) -> dict[str, set[str]]:
    """Return, for each unit, those that must run before it."""
    units = list(units)
    producer = {v: unit.name for unit in units for v in {*unit.writes, *unit.writes_in_file}}
    return {
        unit.name: {producer[value] for value in unit.required if value in producer} - {unit.name}
        for unit in units
    }


def sort_units(units: Iterable[Unit]) -> list[str]:
    """Return the names in an order in which the units can run; ties keep the given order."""
    dependencies = find_unit_dependencies(units)
    ordered = {name: sorted(earlier) for name, earlier in dependencies.items()}
    try:
        return list(TopologicalSorter(ordered).static_order())
    except CycleError as error:
        raise AssertionError(f"units depend on each other: {error.args[1]}") from error


Groups = tuple[frozenset[str], ...]


def bind_units(units: Sequence[Unit], states: Mapping[str, tuple[str, ...]]) -> Groups:
    """Return groups of units that share a state, each with all units between its members."""
    members: dict[str, set[str]] = {}
    for unit in units:
        for state in states.get(unit.name, ()):
            members.setdefault(state, set()).add(unit.name)
    groups = _merge(frozenset(names) for names in members.values() if len(names) > 1)
    while True:
        wider = _merge(_closure(units, group) for group in groups)
        if wider == groups:
            return groups
        groups = wider


def _merge(groups: Iterable[frozenset[str]]) -> Groups:
    """Merge groups that overlap."""
    merged: list[frozenset[str]] = []
    for group in groups:
        disjoint = [other for other in merged if not other & group]
        merged = [*disjoint, group.union(*(other for other in merged if other & group))]
    return tuple(merged)


def _closure(units: Sequence[Unit], group: frozenset[str]) -> frozenset[str]:
    """Return the group and every unit on a path between two of its members."""
    dependencies = find_unit_dependencies(units)
    after, before = set(group), set(group)
    for unit in units:
        if dependencies[unit.name] & after:
            after.add(unit.name)
    for unit in reversed(units):
        if unit.name in before:
            before |= dependencies[unit.name]
    return frozenset(after & before)
