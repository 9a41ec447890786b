"""Write functions of ops for TFLite, discovered by scanning this folder."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from fourfold.formats.rule_table import load_rules
from fourfold.formats.tflite.write_graph.node_writer import RULES, WriteRule


@cache
def rules() -> Mapping[str, WriteRule]:
    """Return every rule by op name."""
    return load_rules(__name__, __path__, RULES)
