"""y = f(x); z = g(y, x)  ->  z = formula(x), if pointwise nodes are all that read x and y.

What makes x can then take the formula as its tail: x * logistic(x) behind a convolution, say.
"""

from __future__ import annotations

from collections.abc import Sequence

from fourfold.graph import Graph, Node
from fourfold.op.registry import registry
from fourfold.ops.formula import Formula, Term
from fourfold.rewrite.fuse_pointwise import MOST_EXTRAS, MOST_STEPS


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
    """The diamonds behind values, as far as they share no node: one that does is looked at again
    when the others are nodes.
    """
    order = {id(node): number for number, node in enumerate(graph.nodes)}
    found: dict[str, list[Node]] = {}
    taken: set[int] = set()
    for source in graph.nodes:
        if len(source.outputs) != 1 or registry()[source.op].pointwise is not None:
            continue
        region = _region(graph, source.outputs[0], order)
        nodes = {id(node) for node in region}
        if region and taken.isdisjoint(nodes):
            found[source.outputs[0]] = region
            taken |= nodes
    return found


def _region(graph: Graph, name: str, order: dict[int, int]) -> list[Node]:
    """All that reads a value, directly or not, up to the one node where everything meets again."""
    pending = list(graph.readers.get(name, ()))
    region: list[Node] = []
    if len(pending) < 2 or name in graph.outputs:
        return []
    while pending:
        pending.sort(key=lambda node: order[id(node)])
        node = pending.pop(0)
        region.append(node)
        if not _can_join(graph, node, name) or len(region) > MOST_STEPS:
            return []
        if not pending:
            break
        readers = graph.readers.get(node.outputs[0], ())
        if not readers or node.outputs[0] in graph.outputs:
            return []
        pending += [reader for reader in readers if reader not in pending]
    extras = {read for node in region for read in node.reads}
    return region if len(extras) <= MOST_EXTRAS else []


def _can_join(graph: Graph, node: Node, name: str) -> bool:
    op = registry()[node.op]
    if op.pointwise is None or op.view is not None or node.tail or len(node.outputs) != 1:
        return False
    return graph.types[node.outputs[0]].shape == graph.types[name].shape


def _formula(name: str, region: Sequence[Node]) -> Node:
    made = {node.outputs[0] for node in region}
    others = (read for node in region for read in node.inputs if read not in made)
    inputs = tuple(dict.fromkeys([name, *others]))
    known: dict[str | None, int] = {read: number for number, read in enumerate(inputs)}
    terms = []
    for node in region:
        terms.append(Term(node.op, tuple(known[read] for read in node.inputs), node.attributes))
        known[node.outputs[0]] = len(inputs) + len(terms) - 1
    last = region[-1]
    return Node("formula", inputs, last.outputs, Formula(tuple(terms)), name=last.name)
