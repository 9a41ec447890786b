"""The table of write functions by op, filled by a decorator."""

from __future__ import annotations

from collections.abc import Callable

from fourfold.formats.onnx.write_graph.graph_writer import GraphWriter
from fourfold.formats.rule_table import register
from fourfold.graph import Node

Write = Callable[[GraphWriter, Node], None]

RULES: dict[str, Write] = {}


def writes(*ops: str) -> Callable[[Write], Write]:
    """Register a function for ops; its docstring is shown to users.

    It raises Unconvertible with a reason if ONNX cannot express a node.
    """
    return register(RULES, ops)
