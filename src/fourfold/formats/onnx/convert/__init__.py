"""Convert functions of ONNX's operators, discovered by scanning this folder."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from fourfold.formats.onnx.operation import RULES, Convert
from fourfold.formats.rule_table import load_rules


@cache
def rules() -> Mapping[str, Convert]:
    """Return every convert function by operator name."""
    return load_rules(__name__, __path__, RULES)
