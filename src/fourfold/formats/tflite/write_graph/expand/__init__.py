"""Expands ops without a TFLite operator into several supported ops, discovered by scanning."""

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
    """Return every expansion by op name."""
    return load_rules(__name__, __path__, EXPANSIONS)


def expand_nodes(graph: Graph) -> Graph:
    """Return an equivalent graph without tails and expandable ops.

    If an expansion does not apply, the node stays, and the writer refuses it.
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
