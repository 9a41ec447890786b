"""Groups units that must run together because they share the state of one interpreter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from fourfold.split.units import Unit, find_unit_dependencies

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
