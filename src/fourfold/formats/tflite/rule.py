"""Which function converts which TFLite operator; a decorator fills the table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fourfold.formats.tflite.operation import Operation

Convert = Callable[[Operation], None]


@dataclass(frozen=True)
class Rule:
    """How one TFLite operator is converted.

    `weights`: its constants may be quantised while its values are float. `moves`: it only moves
    elements, so that it may work on quantised constants as they are. `states`: it asks
    for its states itself (`Operation.recall`, `Operation.keep`). `resources`: it may have values
    that are no arrays, and no results.
    """

    convert: Convert
    weights: bool = False
    moves: bool = False
    states: bool = False
    resources: bool = False


RULES: dict[str, Rule] = {}


def converts(
    *ops: str,
    weights: bool = False,
    moves: bool = False,
    states: bool = False,
    resources: bool = False,
) -> Callable[[Convert], Convert]:
    """Registers a function for TFLite operators; its docstring is shown to users."""

    def register(convert: Convert) -> Convert:
        for op in ops:
            RULES[op] = Rule(convert, weights, moves, states, resources)
        return convert

    return register
