"""Chooses locations: layouts, and which values are views into the memory of others.

Reshapes, joins and cuts need no kernel if producer and consumer can use the same memory: the value
becomes a child of the value that owns it. A value that cannot be a view has its own memory and is
copied.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from fourfold.codegen.context import KernelOptions
from fourfold.codegen.location import (
    Layout,
    Location,
    Stored,
    own_location,
    region_location,
    reshaped_location,
)
from fourfold.compiler.lower.storage import Storage
from fourfold.graph import Graph, Node
from fourfold.ops.base import Alias, registry
from fourfold.types import TensorType


def choose_locations(graph: Graph, options: KernelOptions) -> dict[str, Location]:
    """Return the location of every value that is not a constant."""
    aliases = [(node, alias) for node, alias in _aliases(graph)]
    layouts = _choose_layouts(graph, aliases)
    parents = _choose_parents(graph, aliases, layouts)
    converted = {_child_and_parent(node, alias): alias for node, alias in aliases if alias.converts}
    storage = Storage(graph, options)
    locations: dict[str, Location] = {}

    def resolve(name: str) -> None:
        """Locate a value after those that it is inside of, which may be thousands."""
        chain = [name]
        while chain[-1] in parents and parents[chain[-1]][0] not in locations:
            chain.append(parents[chain[-1]][0])
        for one in reversed(chain):
            own = own_location(one, layouts[one], graph.types[one], storage.of(one))
            locations[one] = _inside_parent(one, own) or own

    def _inside_parent(name: str, own: Location) -> Location | None:
        if name not in parents:
            return None
        parent, axis, start = parents[name]
        outer_location, outer, inner = locations[parent], graph.types[parent], graph.types[name]
        if outer_location.layout is not own.layout:
            return None
        if (name, parent) in converted:
            return converted[name, parent].converted(outer_location)
        if axis is None:
            return reshaped_location(outer_location, outer, inner)
        return region_location(outer_location, outer, inner, axis, start)

    for name in layouts:
        if name not in locations:
            resolve(name)
    return locations


def _child_and_parent(node: Node, alias: Alias) -> tuple[str, str]:
    """Return the value of a conversion that may be inside the other one, and that other one."""
    source, result = str(node.inputs[0]), node.outputs[0]
    return (source, result) if alias.inward else (result, source)


def _aliases(graph: Graph) -> Iterator[tuple[Node, Alias]]:
    for node in graph.nodes:
        op = registry()[node.op]
        if op.view is not None and not node.tail:
            inputs = tuple(type_ for type_ in graph.input_types(node) if type_ is not None)
            alias = op.view(node, inputs, tuple(graph.types[name] for name in node.outputs))
            if alias is not None:
                yield node, alias


def _choose_layouts(graph: Graph, aliases: list[tuple[Node, Alias]]) -> dict[str, Layout]:
    """Choose ROWS for ports and for views that change channels, SLICED otherwise."""
    names = [*graph.inputs, *(name for node in graph.nodes for name in node.outputs)]
    groups = {name: name for name in names}

    def group(name: str) -> str:
        while groups[name] != name:
            groups[name] = groups[groups[name]]
            name = groups[name]
        return name

    rows = {*graph.inputs, *graph.outputs}
    for node, alias in aliases:
        linked = [name for name in (*node.inputs, *node.outputs) if name in groups]
        for name in linked[1:]:
            groups[group(str(name))] = group(str(linked[0]))
        if _needs_rows(graph, node, alias):
            rows.add(node.outputs[0])
    wide = {group(name) for name in names if graph.types[name].channels >= 4}
    rows_groups = {group(name) for name in rows} | ({group(name) for name in names} - wide)
    return {name: Layout.ROWS if group(name) in rows_groups else Layout.SLICED for name in names}


def _needs_rows(graph: Graph, node: Node, alias: Alias) -> bool:
    output = graph.types[node.outputs[0]]
    first = graph.types[str(node.inputs[0])]
    if alias.converts:
        return False
    if alias.kind == "same":
        return first.channels != output.channels
    full, last = (output, output.rank - 1) if alias.kind == "join" else (first, first.rank - 1)
    for region in alias.regions:
        part = graph.types[str(node.inputs[region.part])] if alias.kind == "join" else output
        includes_last = region.start + part.channels == full.channels
        if region.axis == last and (region.start % 4 or (part.channels % 4 and not includes_last)):
            return True
    return False


Parents = dict[str, tuple[str, int | None, int]]


def _choose_parents(
    graph: Graph, aliases: list[tuple[Node, Alias]], layouts: dict[str, Layout]
) -> Parents:
    """Choose which values are inside others.

    Consumers decide first, so that a join can pull its inputs into itself.
    """
    parents: Parents = {}
    roots: dict[str, str] = {}  # shortcuts to the value that a chain of parents ends with
    fixed = {*graph.inputs, *graph.outputs, *graph.constants}

    def free(name: str | None) -> bool:
        return name is not None and name not in fixed and name not in parents

    def root(name: str) -> str:
        """Return the value that contains all others around this one: none of them is free."""
        passed = []
        while name in parents:
            passed.append(name)
            name = roots.get(name, parents[name][0])
        roots.update(dict.fromkeys(passed, name))
        return name

    for node, alias in reversed(aliases):
        output, first = node.outputs[0], node.inputs[0]
        if alias.kind == "join":
            if _regions_fit(graph, node, alias, layouts):
                counts = Counter(node.inputs)
                for region in alias.regions:
                    name = node.inputs[region.part]
                    if free(name) and counts[name] == 1 and root(output) != name:
                        parents[str(name)] = (output, region.axis, region.start)
        elif alias.kind == "cut":
            if free(output) and first not in graph.constants:
                region = alias.regions[0]
                parents[output] = (str(first), region.axis, region.start)
        elif alias.inward or (
            not alias.converts and (graph.is_output(output) or output in parents)
        ):
            if free(first) and root(output) != first:
                parents[str(first)] = (output, None, 0)
        elif free(output) and first not in graph.constants:
            parents[output] = (str(first), None, 0)
    return parents


def _regions_fit(graph: Graph, node: Node, alias: Alias, layouts: dict[str, Layout]) -> bool:
    output = node.outputs[0]
    outer = graph.types[output]
    location = own_location(output, layouts[output], outer, Stored(outer.dtype))
    parts: list[tuple[TensorType, int, int]] = [
        (graph.types[str(node.inputs[region.part])], region.axis, region.start)
        for region in alias.regions
    ]
    return all(region_location(location, outer, part, axis, start) for part, axis, start in parts)
