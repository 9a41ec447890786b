"""Which function converts which ONNX operator; a decorator fills the table."""

from __future__ import annotations

from collections.abc import Callable

from fourfold.formats.onnx.operation import Operation
from fourfold.formats.rule_table import register

Convert = Callable[[Operation], None]

RULES: dict[str, Convert] = {}


def converts(*ops: str) -> Callable[[Convert], Convert]:
    """Registers a function for operators; its docstring is shown to users.

    Operators of other domains than ONNX's own have theirs before the name:
    'com.microsoft.FusedConv'. A rule looks at `Operation.version` where versions differ.
    """
    return register(RULES, ops)
