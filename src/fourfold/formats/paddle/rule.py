"""The table of rules by operator type, filled by a decorator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fourfold.formats.paddle.operation import Operation

Convert = Callable[[Operation], None]


@dataclass(frozen=True)
class Rule:
    """A convert function, and the output parameters it writes; others are only for training."""

    convert: Convert
    outputs: tuple[str, ...]


RULES: dict[str, Rule] = {}


def converts(*types: str, gives: tuple[str, ...] = ("Out",)) -> Callable[[Convert], Convert]:
    """Register a function for operator types; its docstring is shown to users."""

    def register(convert: Convert) -> Convert:
        for name in types:
            RULES[name] = Rule(convert, gives)
        return convert

    return register
