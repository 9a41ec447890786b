"""Convert functions of Paddle's operator types, discovered by scanning this folder."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from fourfold.formats.paddle.operation import RULES, Rule
from fourfold.formats.rule_table import load_rules


@cache
def rules() -> Mapping[str, Rule]:
    """Return every rule by operator type."""
    return load_rules(__name__, __path__, RULES)
