"""Which function converts which type of operator; a decorator fills the table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fourfold.formats.paddle.operation import Operation

Convert = Callable[[Operation], None]


@dataclass(frozen=True)
class Rule:
    """The function, and the parameters whose values it gives; others only count in training."""

    convert: Convert
    outputs: tuple[str, ...]


RULES: dict[str, Rule] = {}


def converts(*types: str, gives: tuple[str, ...] = ("Out",)) -> Callable[[Convert], Convert]:
    """Registers a function for operators of these types; its docstring is shown to users."""

    def register(convert: Convert) -> Convert:
        for name in types:
            RULES[name] = Rule(convert, gives)
        return convert

    return register
