"""OperatorNodes: the nodes that one operator of a file becomes, and how they are named."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fourfold.formats.builder import GraphBuilder
from fourfold.formats.refusal import Unconvertible
from fourfold.graph import NONE
from fourfold.ops.cast import Cast
from fourfold.ops.reshape import Reshape
from fourfold.ops.transpose import Transpose
from fourfold.types import DType, Shape, TensorType


@dataclass(frozen=True)
class OperatorNodes:
    """Adds nodes for an operator: all have its name, the last ones give its outputs. None among
    these stands for one that nobody reads.
    """

    builder: GraphBuilder
    name: str
    outputs: tuple[str | None, ...]

    def type_of(self, value: str) -> TensorType:
        if value not in self.builder.types:
            raise ValueError(f"it reads '{value}', which nothing has written before")
        return self.builder.types[value]

    def known(self, value: str | None) -> np.ndarray | None:
        """What a value holds, if that is known now."""
        return None if value is None else self.builder.constants.get(value)

    def add(self, op: str, *inputs: str | None, attributes: object = NONE, part: str) -> str:
        """A node whose result is only needed on the way; `part` becomes the end of its name."""
        output = self.builder.fresh(f"{self.name}/{part}")
        return self.builder.node(op, inputs, attributes, output, self.name)

    def add_constant(self, array: np.ndarray | float, part: str, dtype: DType = DType.F32) -> str:
        """An array that the file does not hold in this form, or one number of an element type."""
        made = np.asarray(array, None if isinstance(array, np.ndarray) else dtype.numpy)
        name = self.builder.fresh(f"{self.name}/{part}")
        self.builder.folded.add(name)
        return self.builder.constant(name, made)

    def transposed(self, value: str, permutation: Shape, part: str) -> str:
        """Constants are transposed at once, and keep how they are stored."""
        if permutation == tuple(range(len(permutation))):
            return value
        known, type = self.known(value), self.type_of(value)
        turned = type.with_shape(*(type.shape[axis] for axis in permutation))
        if known is None or not self.builder.budget.take(turned, known.nbytes):
            return self.add("transpose", value, attributes=Transpose(permutation), part=part)
        found = self.add_constant(np.ascontiguousarray(known.transpose(permutation)), part)
        stored = self.builder.quantization.get(value)
        if stored is not None:
            axis = None if stored.axis is None else permutation.index(stored.axis)
            self.builder.quantization[found] = replace(stored, axis=axis)
        return found

    def reshaped(self, value: str, shape: Shape, part: str) -> str:
        """Constants keep how they are stored where the axis of their scales stays."""
        own = self.type_of(value).shape
        if own == shape:
            return value
        found = self.add("reshape", value, attributes=Reshape(shape), part=part)
        stored = self.builder.quantization.get(value)
        if stored is not None and self.known(found) is not None:
            end = 0 if stored.axis is None else stored.axis + 1
            if own[:end] == shape[:end]:
                self.builder.quantization[found] = stored
        return found

    def converted(self, value: str, to: DType, part: str) -> str:
        if self.type_of(value).dtype is to:
            return value
        return self.add("cast", value, attributes=Cast(to), part=part)

    def scalar(self, value: float, like: str, part: str) -> str:
        """A scalar of the element type of another value."""
        return self.add_constant(value, part, self.type_of(like).dtype)

    def output(self, index: int) -> str | None:
        """The name of an output; None where nobody reads it."""
        return self.outputs[index] if index < len(self.outputs) else None

    def give(
        self, op: str, *inputs: str | None, attributes: object = NONE, output: int = 0
    ) -> None:
        """The node that makes an output of the operator; none where nobody reads that."""
        final = self.output(output)
        if final is not None:
            self.builder.node(op, inputs, attributes, final, self.name)

    def give_constant(self, array: np.ndarray, output: int = 0) -> None:
        """An output that is known now."""
        final = self.output(output)
        if final is not None:
            self.builder.folded.add(final)
            self.builder.constant(final, array)

    def give_value(self, value: str, output: int = 0) -> None:
        """An output that is equal to a value; what is known stays known."""
        known = self.known(value)
        if known is None:
            self.give("identity", value, output=output)
        else:
            self.give_constant(known, output)

    def reserve(self, type: TensorType, stored: int = 0) -> None:
        """Asks for room before a constant is made of so many stored bytes; refuses what only a
        damaged file would want.
        """
        if not self.builder.budget.take(type, stored):
            raise Unconvertible(f"its constant result {type} is too large")
