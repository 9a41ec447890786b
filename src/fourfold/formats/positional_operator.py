"""PositionalOperator: an operator of a file that knows its inputs by their numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fourfold.formats.operator_nodes import OperatorNodes
from fourfold.formats.refusal import Unconvertible
from fourfold.types import TensorType

LONGEST_LIST = 4096  # of constants that say how an operator works


@dataclass(frozen=True)
class PositionalOperator(OperatorNodes):
    """What it reads; None among the inputs stands for one that is left out."""

    inputs: tuple[str | None, ...]

    def input(self, index: int = 0) -> str:
        name = self.optional(index)
        if name is None:
            raise ValueError(f"input {index} is missing")
        return name

    def optional(self, index: int) -> str | None:
        return self.inputs[index] if index < len(self.inputs) else None

    def all_inputs(self) -> tuple[str, ...]:
        if not self.inputs:
            raise ValueError("it has no inputs")
        return tuple(self.input(index) for index in range(len(self.inputs)))

    def input_type(self, index: int = 0) -> TensorType:
        return self.type_of(self.input(index))

    def constant(self, index: int, what: str) -> np.ndarray:
        """An input that must be known now, such as a shape."""
        name = self.input(index)
        if name not in self.builder.constants:
            raise Unconvertible(f"{what} '{name}' is computed at run time; it must be a constant")
        return self.builder.constants[name]

    def integers(self, index: int, what: str) -> tuple[int, ...]:
        """A short constant list of integers, or of pairs of them; a single number counts as a list
        of one.
        """
        array = self.constant(index, what)
        if array.dtype.kind not in "iu" or array.ndim > 2 or array.size > LONGEST_LIST:
            raise ValueError(f"{what} '{self.inputs[index]}' is not a short list of integers")
        return tuple(int(item) for item in array.reshape(-1))

    def integer(self, index: int, what: str) -> int:
        numbers = self.integers(index, what)
        if len(numbers) != 1:
            raise ValueError(f"{what} '{self.inputs[index]}' is not one number")
        return numbers[0]

    def in_file(self, index: int) -> bool:
        """Whether an input is a constant of the file, and not computed from shapes."""
        name = self.optional(index)
        return name in self.builder.constants and name not in self.builder.folded
