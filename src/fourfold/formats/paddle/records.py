"""Records: all that a Paddle program says, in either of its forms, nothing interpreted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fourfold.types import DType, Shape

Attribute = bool | int | float | str | tuple[int, ...] | tuple[float, ...] | tuple[str, ...]
Arguments = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Variable:
    """The element type of a variable, None where it is no array, and its sizes: -1 is open."""

    dtype: DType | None
    sizes: Shape
    persistable: bool = False


@dataclass(frozen=True)
class OperatorRecord:
    """An operator by its type: the variables for each of its parameters, and its attributes."""

    type: str
    inputs: Arguments
    outputs: Arguments
    attributes: Mapping[str, Attribute] = field(default_factory=dict)

    @property
    def read(self) -> tuple[str, ...]:
        return tuple(name for names in self.inputs.values() for name in names)


@dataclass(frozen=True)
class Program:
    """The operators in order, what is fed and fetched (each name with its variable), and the
    variables. `parameters` are those that the weights hold, in the order in which they do.
    """

    operators: tuple[OperatorRecord, ...]
    variables: Mapping[str, Variable]
    feeds: tuple[str, ...]
    fetches: Mapping[str, str]
    parameters: tuple[str, ...]
