"""OperatorNodes: adds and names the nodes that one operator of a file becomes."""

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
    """Adds nodes for an operator.

    All nodes have its name and the last ones write its outputs. None marks an output that nothing
    reads.
    """

    builder: GraphBuilder
    name: str
    outputs: tuple[str | None, ...]

    def type_of(self, value: str) -> TensorType:
        if value not in self.builder.types:
            raise ValueError(f"it reads '{value}', which no earlier operator has written")
        return self.builder.types[value]

    def known(self, value: str | None) -> np.ndarray | None:
        """Return the array of a constant value; None if it is computed at run time."""
        return None if value is None else self.builder.constants.get(value)

    def add(self, op: str, *inputs: str | None, attributes: object = NONE, part: str) -> str:
        """Add a node for an intermediate result; `part` is the suffix of its name."""
        output = self.builder.fresh(f"{self.name}/{part}")
        return self.builder.node(op, inputs, attributes, output, self.name)

    def add_constant(self, array: np.ndarray | float, part: str, dtype: DType = DType.F32) -> str:
        """Add an array that is not in the file in this form, or a single number of type `dtype`."""
        made = np.asarray(array, None if isinstance(array, np.ndarray) else dtype.numpy)
        name = self.builder.fresh(f"{self.name}/{part}")
        self.builder.folded.add(name)
        return self.builder.constant(name, made)

    def transposed(self, value: str, permutation: Shape, part: str) -> str:
        """Transpose a value.

        Constants are transposed at once and keep their quantization.
        """
        if permutation == tuple(range(len(permutation))):
            return value
        array, type = self.known(value), self.type_of(value)
        turned = type.with_shape(*(type.shape[axis] for axis in permutation))
        if array is None or not self.builder.budget.take(turned, array.nbytes):
            return self.add("transpose", value, attributes=Transpose(permutation), part=part)
        name = self.add_constant(np.ascontiguousarray(array.transpose(permutation)), part)
        stored = self.builder.quantization.get(value)
        if stored is not None:
            axis = None if stored.axis is None else permutation.index(stored.axis)
            self.builder.quantization[name] = replace(stored, axis=axis)
        return name

    def reshaped(self, value: str, shape: Shape, part: str) -> str:
        """Reshape a value.

        Constants keep their quantization if the axis of the scales is unchanged.
        """
        own = self.type_of(value).shape
        if own == shape:
            return value
        name = self.add("reshape", value, attributes=Reshape(shape), part=part)
        stored = self.builder.quantization.get(value)
        if stored is not None and self.known(name) is not None:
            end = 0 if stored.axis is None else stored.axis + 1
            if own[:end] == shape[:end]:
                self.builder.quantization[name] = stored
        return name

    def converted(self, value: str, to: DType, part: str) -> str:
        if self.type_of(value).dtype is to:
            return value
        return self.add("cast", value, attributes=Cast(to), part=part)

    def scalar(self, value: float, like: str, part: str) -> str:
        """Add a scalar with the element type of another value."""
        return self.add_constant(value, part, self.type_of(like).dtype)

    def output(self, index: int) -> str | None:
        """Return the name of an output; None if nothing reads it."""
        return self.outputs[index] if index < len(self.outputs) else None

    def give(
        self, op: str, *inputs: str | None, attributes: object = NONE, output: int = 0
    ) -> None:
        """Add the node that writes an output of the operator, unless nothing reads it."""
        final = self.output(output)
        if final is not None:
            self.builder.node(op, inputs, attributes, final, self.name)

    def give_constant(self, array: np.ndarray, output: int = 0) -> None:
        """Write a constant output."""
        final = self.output(output)
        if final is not None:
            self.builder.folded.add(final)
            self.builder.constant(final, array)

    def give_value(self, value: str, output: int = 0) -> None:
        """Write an output that equals a value; constants stay constants."""
        array = self.known(value)
        if array is None:
            self.give("identity", value, output=output)
        else:
            self.give_constant(array, output)

    def reserve(self, type: TensorType, stored: int = 0) -> None:
        """Reserve memory for a constant before it is computed from `stored` bytes of the file.

        Refuses sizes that only a damaged file would need.
        """
        if not self.builder.budget.take(type, stored):
            raise Unconvertible(f"its constant result {type} is too large")
