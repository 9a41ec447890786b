"""The table of convert functions by operator, filled by a decorator."""

from __future__ import annotations

from collections.abc import Callable

from fourfold.formats.onnx.operation import Operation
from fourfold.formats.rule_table import register

Convert = Callable[[Operation], None]

RULES: dict[str, Convert] = {}


def converts(*ops: str) -> Callable[[Convert], Convert]:
    """Register a function for operators; its docstring is shown to users.

    Operators of other domains than ONNX's own have a prefix: 'com.microsoft.FusedConv'. A rule
    checks `Operation.version` if versions differ.
    """
    return register(RULES, ops)
