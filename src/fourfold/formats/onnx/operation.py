"""One operator while it is converted: its values, attributes and constants, and its nodes."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field

import numpy as np

from fourfold.formats.onnx.external import ExternalFiles
from fourfold.formats.onnx.file import read_tensor
from fourfold.formats.onnx.records import NodeRecord
from fourfold.formats.onnx.schema import AttributeField
from fourfold.formats.onnx.tensors import array_of
from fourfold.formats.positional_operator import LONGEST_LIST, PositionalOperator
from fourfold.formats.protobuf import Message
from fourfold.types import Shape, TensorType


@dataclass(frozen=True)
class Operation(PositionalOperator):
    """What a convert function sees. `version` is that of the operator set. All nodes get the name
    of the operator of the file which they belong to.
    """

    record: NodeRecord
    version: int
    attributes: Mapping[str, Message] = field(default_factory=dict)
    files: ExternalFiles = field(default_factory=lambda: ExternalFiles(None))
    nibbles: Set[str] = frozenset()  # values that the file has in four bits
    own_types: Mapping[str, TensorType] = field(default_factory=dict)  # in the file's own batch
    changed: dict[str, np.ndarray] = field(default_factory=dict)  # constants, for another batch

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

    def change(self, index: int, numbers: Shape) -> None:
        """Notes what a constant of the file must be for the batch that the caller has given."""
        name = self.input(index)
        new = np.asarray(numbers, self.builder.constants[name].dtype)
        if not np.array_equal(self.changed.setdefault(name, new), new):
            raise ValueError(f"'{name}' would have to be two things at once")
