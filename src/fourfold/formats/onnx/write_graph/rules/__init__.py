"""Write functions of ops for ONNX, discovered by scanning this folder."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from fourfold.formats.onnx.write_graph.graph_writer import RULES, Write
from fourfold.formats.rule_table import load_rules


@cache
def rules() -> Mapping[str, Write]:
    """Return every write function by op name."""
    return load_rules(__name__, __path__, RULES)
