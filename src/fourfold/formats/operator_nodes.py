"""OperatorNodes: adds and names the nodes that one operator of a file becomes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from fourfold.formats.budget import check_shape
from fourfold.formats.builder import GraphBuilder
from fourfold.formats.rule_table import Unconvertible
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
        value = np.asarray(array, None if isinstance(array, np.ndarray) else dtype.numpy)
        name = self.builder.fresh(f"{self.name}/{part}")
        self.builder.folded.add(name)
        return self.builder.constant(name, value)

    def transposed(self, value: str, permutation: Shape, part: str) -> str:
        """Transpose a value.

        Constants are transposed at once and keep their quantization.
        """
        if permutation == tuple(range(len(permutation))):
            return value
        array, type, shared = self.known(value), self.type_of(value), self.builder.transposed
        if (value, permutation) in shared:
            return shared[value, permutation]
        turned = type.with_shape(*(type.shape[axis] for axis in permutation))
        if array is None or not self.builder.budget.take(turned, array.nbytes):
            return self.add("transpose", value, attributes=Transpose(permutation), part=part)
        name = self.add_constant(np.ascontiguousarray(array.transpose(permutation)), part)
        stored = self.builder.quantization.get(value)
        if stored is not None:
            axis = None if stored.axis is None else permutation.index(stored.axis)
            self.builder.quantization[name] = replace(stored, axis=axis)
        elif type.dtype.is_float:  # operators may give integers different scales
            shared[value, permutation] = name
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


def give_range(
    nodes: OperatorNodes, start: np.ndarray, limit: np.ndarray, step: np.ndarray
) -> None:
    """Write the numbers from `start` up to, but not including, `limit`, in steps of `step`."""
    if not start.size == limit.size == step.size == 1 or step.reshape(-1)[0] == 0:
        raise ValueError("start, limit and step must be single numbers, and the step not zero")
    first, last, increment = (array.reshape(-1)[0].item() for array in (start, limit, step))
    if not all(math.isfinite(number) for number in (first, last, increment)):
        raise ValueError(f"a range from {first} to {last} by {increment} has no end")
    count = max(math.ceil((last - first) / increment), 0)
    type = TensorType(DType.of(start), (count,))
    nodes.reserve(type)
    nodes.give_constant((first + np.arange(count) * increment).astype(type.dtype.numpy))


def give_full(nodes: OperatorNodes, shape: Shape, value: np.ndarray) -> None:
    """Write a tensor filled with one number."""
    if value.size != 1:
        raise ValueError(f"cannot fill {list(shape)} with {value.size} values")
    check_shape(shape)
    nodes.reserve(TensorType(DType.of(value), shape))
    nodes.give_constant(np.full(shape, value.reshape(-1)[0], value.dtype))


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
