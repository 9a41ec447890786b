"""PositionalOperator: an operator of a file that addresses its inputs by index."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fourfold.formats.operator_nodes import OperatorNodes
from fourfold.formats.refusal import Unconvertible
from fourfold.types import TensorType

MAX_LIST_LENGTH = 4096  # elements of a constant that configures an operator


@dataclass(frozen=True)
class PositionalOperator(OperatorNodes):
    """An operator with numbered inputs; None marks an input that is omitted."""

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
        """Return the array of an input that must be a constant, such as a shape."""
        name = self.input(index)
        if name not in self.builder.constants:
            raise Unconvertible(f"{what} '{name}' is computed at run time; it must be a constant")
        return self.builder.constants[name]

    def integers(self, index: int, what: str) -> tuple[int, ...]:
        """Return a short constant list of integers or of pairs; a scalar is a list of one."""
        array = self.constant(index, what)
        if array.dtype.kind not in "iu" or array.ndim > 2 or array.size > MAX_LIST_LENGTH:
            raise ValueError(f"{what} '{self.inputs[index]}' is not a short list of integers")
        return tuple(int(item) for item in array.reshape(-1))

    def integer(self, index: int, what: str) -> int:
        numbers = self.integers(index, what)
        if len(numbers) != 1:
            raise ValueError(f"{what} '{self.inputs[index]}' is not one number")
        return numbers[0]

    def in_file(self, index: int) -> bool:
        """Return True if an input is a constant of the file, not one folded while reading."""
        name = self.optional(index)
        return name in self.builder.constants and name not in self.builder.folded
