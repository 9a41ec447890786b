"""Records of a Paddle program, the same for both of its file forms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from fourfold.types import DType, Shape

Attribute = bool | int | float | str | tuple[int, ...] | tuple[float, ...] | tuple[str, ...]
Arguments = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Variable:
    """A variable: its element type (None if it is not an array) and sizes (-1 is dynamic)."""

    dtype: DType | None
    sizes: Shape
    persistable: bool = False


@dataclass(frozen=True)
class OperatorRecord:
    """An operator: its type, the variables of each parameter, and its attributes."""

    type: str
    inputs: Arguments
    outputs: Arguments
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    message: memoryview | None = None  # serialized, in the protobuf form
    has_blocks: bool = False  # contains other operators (control flow)

    @property
    def read(self) -> tuple[str, ...]:
        return tuple(name for names in self.inputs.values() for name in names)


@dataclass(frozen=True)
class Program:
    """Operators in order, variables, and inputs (feeds) and outputs (fetches) with their variables.

    `parameters` are the variables stored in the weights file, in its order.
    """

    operators: tuple[OperatorRecord, ...]
    variables: Mapping[str, Variable]
    feeds: tuple[str, ...]
    fetches: Mapping[str, str]
    parameters: tuple[str, ...]

    @cached_property
    def can_be_cut(self) -> bool:
        """Return True if a subset of its operators can be written as a program.

        This needs the protobuf form, and no variable may be written twice.
        """
        written = [
            name
            for one in self.operators
            for names in one.outputs.values()
            for name in names
            if name not in one.read  # training statistics that are passed through
        ]
        return (
            all(one.message is not None for one in self.operators)
            and len(set(written)) == len(written)
            and {*self.feeds, *self.parameters}.isdisjoint(written)
        )
