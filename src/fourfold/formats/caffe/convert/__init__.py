"""Caffe's layers as nodes: one function for each type, found by scanning this folder."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from fourfold.formats.caffe.rule import RULES, Convert
from fourfold.formats.rule_table import load_rules


@cache
def rules() -> Mapping[str, Convert]:
    """Every rule by the type of layer."""
    return load_rules(__name__, __path__, RULES)
