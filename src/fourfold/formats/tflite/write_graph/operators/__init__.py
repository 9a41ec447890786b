"""Our ops as TFLite's operators: one function for each op, found by scanning this folder."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from fourfold.formats.rule_table import load_rules
from fourfold.formats.tflite.write_graph.rule import RULES, WriteRule


@cache
def rules() -> Mapping[str, WriteRule]:
    """Every rule by the op's name."""
    return load_rules(__name__, __path__, RULES)
