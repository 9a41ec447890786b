"""The table of convert functions by layer type, filled by a decorator."""

from __future__ import annotations

from collections.abc import Callable

from fourfold.formats.caffe.operation import Operation
from fourfold.formats.rule_table import register

Convert = Callable[[Operation], None]
RULES: dict[str, Convert] = {}


def converts(*types: str) -> Callable[[Convert], Convert]:
    """Register a function for layer types; its docstring is shown to users."""
    return register(RULES, types)
