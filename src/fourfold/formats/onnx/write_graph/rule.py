"""Which function writes which op; a decorator fills the table."""

from __future__ import annotations

from collections.abc import Callable

from fourfold.formats.onnx.write_graph.graph_writer import GraphWriter
from fourfold.graph import Node

Write = Callable[[GraphWriter, Node], None]

RULES: dict[str, Write] = {}


def writes(*ops: str) -> Callable[[Write], Write]:
    """Registers a function for ops; its docstring is shown to users. It raises Unconvertible with
    a reason where ONNX cannot say what a node does.
    """

    def register(write: Write) -> Write:
        for op in ops:
            RULES[op] = write
        return write

    return register


def summary(write: Write) -> str:
    return (write.__doc__ or "").strip().split("\n")[0]
