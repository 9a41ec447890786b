"""TFLite's operators as nodes: one function for each operator, found by scanning this folder."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from fourfold.formats.rule_table import load_rules
from fourfold.formats.tflite.rule import RULES, Rule


@cache
def rules() -> Mapping[str, Rule]:
    """Every rule by the TFLite operator's name."""
    return load_rules(__name__, __path__, RULES)
