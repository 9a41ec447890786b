"""Which function converts which type of layer; a decorator fills the table."""

from __future__ import annotations

from collections.abc import Callable

from fourfold.formats.caffe.operation import Operation
from fourfold.formats.rule_table import register

Convert = Callable[[Operation], None]
RULES: dict[str, Convert] = {}


def converts(*types: str) -> Callable[[Convert], Convert]:
    """Registers a function for layers of these types; its docstring is shown to users."""
    return register(RULES, types)
