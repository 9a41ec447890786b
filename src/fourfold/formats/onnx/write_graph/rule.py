"""Which function writes which op; a decorator fills the table."""

from __future__ import annotations

from collections.abc import Callable

from fourfold.formats.onnx.write_graph.graph_writer import GraphWriter
from fourfold.formats.rule_table import register
from fourfold.graph import Node

Write = Callable[[GraphWriter, Node], None]

RULES: dict[str, Write] = {}


def writes(*ops: str) -> Callable[[Write], Write]:
    """Registers a function for ops; its docstring is shown to users. It raises Unconvertible with
    a reason where ONNX cannot say what a node does.
    """
    return register(RULES, ops)
