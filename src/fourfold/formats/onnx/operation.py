"""One operator while it is converted: its values, attributes and constants, and its nodes."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace

import numpy as np

from fourfold.formats.builder import GraphBuilder
from fourfold.formats.onnx.external import ExternalFiles
from fourfold.formats.onnx.file import read_tensor
from fourfold.formats.onnx.records import NodeRecord
from fourfold.formats.onnx.schema import AttributeField
from fourfold.formats.onnx.tensors import array_of
from fourfold.formats.protobuf import Message
from fourfold.formats.refusal import Unconvertible
from fourfold.graph import NONE
from fourfold.ops.cast import Cast
from fourfold.ops.reshape import Reshape
from fourfold.ops.transpose import Transpose
from fourfold.types import DType, Shape, TensorType

LONGEST_LIST = 4096  # of attributes and of constants that say how an operator works


@dataclass(frozen=True)
class Operation:
    """What a convert function sees. `version` is that of the operator set; None among the values
    stands for one that is left out, among the outputs also for one that nobody reads. All nodes
    get the name `unit`, that of the operator of the file which they belong to.
    """

    builder: GraphBuilder
    record: NodeRecord
    version: int
    inputs: tuple[str | None, ...]
    outputs: tuple[str | None, ...]
    unit: str
    attributes: Mapping[str, Message] = field(default_factory=dict)
    files: ExternalFiles = field(default_factory=lambda: ExternalFiles(None))
    nibbles: Set[str] = frozenset()  # values that the file has in four bits
    own_types: Mapping[str, TensorType] = field(default_factory=dict)  # in the file's own batch
    changed: dict[str, np.ndarray] = field(default_factory=dict)  # constants, for another batch

    # What it reads.

    def input(self, index: int) -> str:
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

    def input_type(self, index: int) -> TensorType:
        return self.builder.types[self.input(index)]

    def type_of(self, value: str) -> TensorType:
        return self.builder.types[value]

    def known(self, value: str | None) -> np.ndarray | None:
        """The numbers of a value that is a constant, or is known to be one by now."""
        return None if value is None else self.builder.constants.get(value)

    def constant(self, index: int, what: str) -> np.ndarray:
        """An input that must be known now, such as a shape."""
        name = self.input(index)
        if name not in self.builder.constants:
            raise Unconvertible(f"{what} '{name}' is computed at run time; it must be a constant")
        return self.builder.constants[name]

    def integers(self, index: int, what: str) -> tuple[int, ...]:
        """A short constant list of integers; a single number counts as a list of one."""
        array = self.constant(index, what)
        if array.dtype.kind not in "iu" or array.ndim > 1 or array.size > LONGEST_LIST:
            raise ValueError(f"{what} '{self.inputs[index]}' is not a short list of integers")
        return tuple(int(item) for item in array.reshape(-1))

    def integer(self, index: int, what: str) -> int:
        numbers = self.integers(index, what)
        if len(numbers) != 1:
            raise ValueError(f"{what} '{self.inputs[index]}' is not one number")
        return numbers[0]

    def number(self, index: int, what: str) -> float | None:
        """An input that is one constant number; None where it is left out."""
        if self.optional(index) is None:
            return None
        array = self.constant(index, what)
        if array.size == 0:
            return None
        if array.size != 1 or array.dtype.kind not in "fiub":
            raise ValueError(f"{what} '{self.inputs[index]}' is not one number")
        return float(array.reshape(-1)[0])

    # Its attributes.

    def has(self, name: str) -> bool:
        return name in self.attributes

    def attribute(self, name: str, default: int) -> int:
        """An attribute that is a whole number."""
        found = self.attributes.get(name)
        return default if found is None else found.integer(AttributeField.INTEGER)

    def real_attribute(self, name: str, default: float) -> float:
        found = self.attributes.get(name)
        return default if found is None else found.float32(AttributeField.FLOAT)

    def text_attribute(self, name: str, default: str) -> str:
        found = self.attributes.get(name)
        return default if found is None else found.text(AttributeField.TEXT)

    def texts_attribute(self, name: str) -> tuple[str, ...]:
        found = self.attributes.get(name)
        return () if found is None else found.texts(AttributeField.TEXTS)

    def list_attribute(self, name: str) -> tuple[int, ...] | None:
        """An attribute that is a list of whole numbers; None where it is left out."""
        found = self.attributes.get(name)
        if found is None:
            return None
        numbers = found.integers(AttributeField.INTEGERS)
        if numbers.size > LONGEST_LIST:
            raise ValueError(f"its list '{name}' has {numbers.size} numbers")
        return tuple(numbers.tolist())

    def real_list_attribute(self, name: str) -> tuple[float, ...] | None:
        found = self.attributes.get(name)
        return None if found is None else tuple(found.floats(AttributeField.FLOATS).tolist())

    def tensor_attribute(self, name: str) -> np.ndarray | None:
        found = self.attributes.get(name)
        tensor = None if found is None else found.message(AttributeField.TENSOR)
        return None if tensor is None else array_of(read_tensor(tensor), self.files)

    def list_or_input(self, name: str, index: int) -> tuple[int, ...] | None:
        """A list that older operator sets have as an attribute and newer ones as an input."""
        if self.has(name):
            return self.list_attribute(name)
        return None if self.optional(index) is None else self.integers(index, name)

    # The nodes that it becomes.

    def add(self, op: str, *inputs: str | None, attributes: object = NONE, part: str) -> str:
        """A node whose result is only needed on the way; `part` becomes the end of its name."""
        output = self.builder.fresh(f"{self.unit}/{part}")
        return self.builder.node(op, inputs, attributes, output, self.unit)

    def give(
        self, op: str, *inputs: str | None, attributes: object = NONE, output: int = 0
    ) -> None:
        """The node that makes an output of the operator; nothing where nobody reads that."""
        final = self.outputs[output] if output < len(self.outputs) else None
        if final is not None:
            self.builder.node(op, inputs, attributes, final, self.unit)

    def give_constant(self, array: np.ndarray, output: int = 0) -> None:
        final = self.outputs[output] if output < len(self.outputs) else None
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

    def made(self, array: np.ndarray | float, part: str, like: DType = DType.F32) -> str:
        """A constant that is only needed on the way."""
        made = np.asarray(array, None if isinstance(array, np.ndarray) else like.numpy)
        return self.builder.constant(self.builder.fresh(f"{self.unit}/{part}"), made)

    def transposed(self, value: str, permutation: Shape, part: str) -> str:
        if permutation == tuple(range(len(permutation))):
            return value
        found = self.add("transpose", value, attributes=Transpose(permutation), part=part)
        stored = self.builder.quantization.get(value)
        if stored is not None and found in self.builder.constants:
            axis = None if stored.axis is None else permutation.index(stored.axis)
            self.builder.quantization[found] = replace(stored, axis=axis)
        return found

    def reshaped(self, value: str, shape: Shape, part: str) -> str:
        if self.type_of(value).shape == shape:
            return value
        return self.add("reshape", value, attributes=Reshape(shape), part=part)

    def converted(self, value: str, to: DType, part: str) -> str:
        if self.type_of(value).dtype is to:
            return value
        return self.add("cast", value, attributes=Cast(to), part=part)

    def in_file(self, index: int) -> bool:
        """Whether an input is a constant of the file, and not computed from shapes."""
        name = self.optional(index)
        return name in self.builder.constants and name not in self.builder.folded

    def change(self, index: int, numbers: Shape) -> None:
        """Notes what a constant of the file must be for the batch that the caller has given."""
        name = self.input(index)
        new = np.asarray(numbers, self.builder.constants[name].dtype)
        if not np.array_equal(self.changed.setdefault(name, new), new):
            raise ValueError(f"'{name}' would have to be two things at once")

    def reserve(self, type: TensorType) -> None:
        """Asks for room before a constant is made; refuses what only a damaged file would want."""
        if not self.builder.budget.take(type):
            raise Unconvertible(f"its constant result {type} is too large")


def axis_of(axis: int, rank: int) -> int:
    """A non-negative axis."""
    if not -rank <= axis < rank:
        raise ValueError(f"axis {axis} is not one of {rank}")
    return axis % rank


def axes_of(axes: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """Non-negative axes in ascending order, each once."""
    found = tuple(sorted({axis_of(axis, rank) for axis in axes}))
    if len(found) != len(axes):
        raise ValueError(f"axes {list(axes)} name one axis twice")
    return found
