"""Which function converts which ONNX operator; a decorator fills the table."""

from __future__ import annotations

from collections.abc import Callable

from fourfold.formats.onnx.operation import Operation

Convert = Callable[[Operation], None]

RULES: dict[str, Convert] = {}


def converts(*ops: str) -> Callable[[Convert], Convert]:
    """Registers a function for operators; its docstring is shown to users.

    Operators of other domains than ONNX's own have theirs before the name:
    'com.microsoft.FusedConv'. A rule looks at `Operation.version` where versions differ.
    """

    def register(convert: Convert) -> Convert:
        for op in ops:
            RULES[op] = convert
        return convert

    return register


def summary(convert: Convert) -> str:
    return (convert.__doc__ or "").strip().split("\n")[0]
