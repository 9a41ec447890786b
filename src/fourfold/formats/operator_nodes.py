"""OperatorNodes: the nodes that one operator of a file becomes, and how they are named."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fourfold.formats.builder import GraphBuilder
from fourfold.graph import NONE
from fourfold.types import TensorType


@dataclass(frozen=True)
class OperatorNodes:
    """Adds nodes for an operator: all have its name, the last ones give its outputs."""

    builder: GraphBuilder
    name: str
    outputs: tuple[str, ...]

    def type_of(self, value: str) -> TensorType:
        if value not in self.builder.types:
            raise ValueError(f"it reads '{value}', which nothing has written before")
        return self.builder.types[value]

    def array(self, value: str) -> np.ndarray | None:
        """What a value holds, if that is known now."""
        return self.builder.constants.get(value)

    def constant(self, array: np.ndarray, part: str) -> str:
        """An array that the file does not hold in this form."""
        name = self.builder.fresh(f"{self.name}/{part}")
        self.builder.folded.add(name)
        return self.builder.constant(name, array)

    def scalar(self, value: float, like: str, part: str) -> str:
        """A scalar of the element type of another value."""
        return self.constant(np.array(value, self.type_of(like).dtype.numpy), part)

    def add(self, op: str, *inputs: str | None, attributes: object = NONE, part: str) -> str:
        """A node whose result is only needed on the way; `part` becomes the end of its name."""
        output = self.builder.fresh(f"{self.name}/{part}")
        return self.builder.node(op, inputs, attributes, output, self.name)

    def give(
        self, op: str, *inputs: str | None, attributes: object = NONE, output: int = 0
    ) -> None:
        """The node that makes an output of the operator."""
        self.builder.node(op, inputs, attributes, self.outputs[output], self.name)

    def give_constant(self, array: np.ndarray, output: int = 0) -> None:
        """An output that is known now."""
        self.builder.folded.add(self.outputs[output])
        self.builder.constant(self.outputs[output], array)
