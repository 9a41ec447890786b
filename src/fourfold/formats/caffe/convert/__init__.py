"""Convert functions of Caffe's layer types, discovered by scanning this folder."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from fourfold.formats.caffe.operation import RULES, Convert
from fourfold.formats.rule_table import load_rules


@cache
def rules() -> Mapping[str, Convert]:
    """Return every convert function by layer type."""
    return load_rules(__name__, __path__, RULES)
