"""Records: all that a Paddle program says, in either of its forms, nothing interpreted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

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
    message: memoryview | None = None  # as the protobuf form has it
    has_blocks: bool = False  # other operators are inside of it

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

    @cached_property
    def can_be_cut(self) -> bool:
        """Whether some of its operators can be a program of their own: as protobuf, and where no
        variable is written twice, so that its name says which value it is.
        """
        written = [
            name
            for one in self.operators
            for names in one.outputs.values()
            for name in names
            if name not in one.read  # numbers of training that are passed on
        ]
        return (
            all(one.message is not None for one in self.operators)
            and len(set(written)) == len(written)
            and {*self.feeds, *self.parameters}.isdisjoint(written)
        )
