"""ONNX's operators as nodes: one function for each operator, found by scanning this folder."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from fourfold.formats.onnx.rule import RULES, Convert
from fourfold.formats.rule_table import load_rules


@cache
def rules() -> Mapping[str, Convert]:
    """Every rule by the operator's name."""
    return load_rules(__name__, __path__, RULES)
