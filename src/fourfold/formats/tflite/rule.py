"""The table of rules by TFLite operator, filled by a decorator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fourfold.formats.tflite.operation import Operation

Convert = Callable[[Operation], None]


@dataclass(frozen=True)
class Rule:
    """The rule for one TFLite operator.

    `weights`: its constants may be quantized while its values are float. `moves`: it only moves
    elements, so it can work on quantized constants directly. `states`: it handles its states itself
    (`Operation.recall`, `Operation.keep`). `resources`: it may have values that are not arrays, and
    no results.
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
    """Register a function for TFLite operators; its docstring is shown to users."""

    def register(convert: Convert) -> Convert:
        for op in ops:
            RULES[op] = Rule(convert, weights, moves, states, resources)
        return convert

    return register
