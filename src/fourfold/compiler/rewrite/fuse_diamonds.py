"""y = f(x); z = g(y, x)  ->  z = formula(x), if only pointwise nodes read x and y.

The producer of x can then take the formula as its tail, for example x * logistic(x) after a
convolution.
"""

from __future__ import annotations

from collections.abc import Sequence

from fourfold.compiler.rewrite.fuse_pointwise import MAX_TAIL_INPUTS, MAX_TAIL_STEPS
from fourfold.graph import Graph, Node
from fourfold.ops.base import registry
from fourfold.ops.formula import Formula, Term


def fuse_diamonds(graph: Graph) -> Graph:
    while True:
        regions = _regions(graph)
        if not regions:
            return graph
        gone = {id(node) for region in regions.values() for node in region[:-1]}
        joined = {id(region[-1]): _formula(name, region) for name, region in regions.items()}
        kept = (node for node in graph.nodes if id(node) not in gone)
        graph = graph.with_nodes(tuple(joined.get(id(node), node) for node in kept))


def _regions(graph: Graph) -> dict[str, list[Node]]:
    """Return the diamonds after values, as far as they share no node.

    One that shares a node is considered again when the others are nodes.
    """
    order = {id(node): number for number, node in enumerate(graph.nodes)}
    diamonds: dict[str, list[Node]] = {}
    taken: set[int] = set()
    for source in graph.nodes:
        if len(source.outputs) != 1 or registry()[source.op].pointwise is not None:
            continue
        region = _region(graph, source.outputs[0], order)
        nodes = {id(node) for node in region}
        if region and taken.isdisjoint(nodes):
            diamonds[source.outputs[0]] = region
            taken |= nodes
    return diamonds


def _region(graph: Graph, name: str, order: dict[int, int]) -> list[Node]:
    """Return all direct and indirect readers of a value, up to the node where they join again."""
    pending = list(graph.readers.get(name, ()))
    region: list[Node] = []
    if len(pending) < 2 or graph.is_output(name):
        return []
    while pending:
        if len(region) + len(pending) > MAX_TAIL_STEPS:
            return []  # all of them would have to join
        pending.sort(key=lambda node: order[id(node)])
        node = pending.pop(0)
        region.append(node)
        if not _can_join(graph, node, name):
            return []
        if not pending:
            break
        readers = graph.readers.get(node.outputs[0], ())
        if not readers or graph.is_output(node.outputs[0]):
            return []
        pending += [reader for reader in readers if reader not in pending]
    extras = {read for node in region for read in node.reads}
    return region if len(extras) <= MAX_TAIL_INPUTS else []


def _can_join(graph: Graph, node: Node, name: str) -> bool:
    op = registry()[node.op]
    if op.pointwise is None or op.view is not None or node.tail or len(node.outputs) != 1:
        return False
    return graph.types[node.outputs[0]].shape == graph.types[name].shape


def _formula(name: str, region: Sequence[Node]) -> Node:
    inner_values = {node.outputs[0] for node in region}
    others = (read for node in region for read in node.inputs if read not in inner_values)
    inputs = tuple(dict.fromkeys([name, *others]))
    numbers: dict[str | None, int] = {read: number for number, read in enumerate(inputs)}
    terms = []
    for node in region:
        terms.append(Term(node.op, tuple(numbers[read] for read in node.inputs), node.attributes))
        numbers[node.outputs[0]] = len(inputs) + len(terms) - 1
    last = region[-1]
    return Node("formula", inputs, last.outputs, Formula(tuple(terms)), name=last.name)
