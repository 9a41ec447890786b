"""Ops that TFLite has no operator for, as several ops that it has: one function for each op, found
by scanning this folder.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache

import numpy as np

from fourfold.formats.names import UniqueNames
from fourfold.formats.rule_table import load_rules
from fourfold.formats.tflite.write_graph.expansion import EXPANSIONS, Expand, Expansion
from fourfold.graph import Graph, Node
from fourfold.types import TensorType


@cache
def expansions() -> Mapping[str, Expand]:
    """Every expansion by the op's name."""
    return load_rules(__name__, __path__, EXPANSIONS)


def expand_nodes(graph: Graph) -> Graph:
    """The same function without tails, and without ops that are known here. An expansion that
    does not apply to a node leaves it, for the writer to refuse.
    """
    types: dict[str, TensorType] = dict(graph.types)
    constants: dict[str, np.ndarray] = dict(graph.constants)
    names = UniqueNames()
    for name in types:
        names.fresh(name)
    grown = replace(graph, types=types, constants=constants)
    nodes = [new for node in graph.nodes for new in _expanded(node, grown, names)]
    return replace(grown, nodes=tuple(nodes))


def _expanded(node: Node, graph: Graph, names: UniqueNames) -> Iterator[Node]:
    expand = expansions().get("tail" if node.tail else node.op)
    expansion = Expansion(node, graph.types, graph.constants, names)  # type: ignore[arg-type]
    if expand is None or not expand(expansion):
        yield node
        return
    for new in expansion.nodes:
        yield from _expanded(new, graph, names)
