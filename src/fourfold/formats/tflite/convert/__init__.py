"""Convert functions of TFLite's operators, discovered by scanning this folder."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from fourfold.formats.rule_table import load_rules
from fourfold.formats.tflite.operation import RULES, Rule


@cache
def rules() -> Mapping[str, Rule]:
    """Return every rule by operator name."""
    return load_rules(__name__, __path__, RULES)
