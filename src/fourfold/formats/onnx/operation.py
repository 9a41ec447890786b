"""Operation: one operator during conversion, with its values, attributes and constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field

import numpy as np

from fourfold.formats.onnx.file import NodeRecord, read_tensor
from fourfold.formats.onnx.schema import AttributeField
from fourfold.formats.onnx.tensors import ExternalFiles, array_of
from fourfold.formats.operator_nodes import MAX_LIST_LENGTH, PositionalOperator
from fourfold.formats.protobuf import Message
from fourfold.formats.rule_table import register
from fourfold.types import Shape, TensorType


@dataclass(frozen=True)
class Operation(PositionalOperator):
    """The argument of a convert function.

    `version` is the version of the operator set. All nodes get the name of the file's operator.
    """

    record: NodeRecord
    version: int
    attributes: Mapping[str, Message] = field(default_factory=dict)
    files: ExternalFiles = field(default_factory=lambda: ExternalFiles(None))
    nibbles: Set[str] = frozenset()  # values stored in 4 bits
    # types in the file's own batch
    own_types: Mapping[str, TensorType] = field(default_factory=dict)
    # Constants adapted to another batch.
    changed: dict[str, np.ndarray] = field(default_factory=dict)

    def number(self, index: int, what: str) -> float | None:
        """Return an input that is one constant number; None if it is omitted."""
        if self.optional(index) is None:
            return None
        array = self.constant(index, what)
        if array.size == 0:
            return None
        if array.size != 1 or array.dtype.kind not in "fiub":
            raise ValueError(f"{what} '{self.inputs[index]}' is not one number")
        return float(array.reshape(-1)[0])

    def has(self, name: str) -> bool:
        return name in self.attributes

    def attribute(self, name: str, default: int) -> int:
        """Return an integer attribute."""
        value = self.attributes.get(name)
        return default if value is None else value.integer(AttributeField.INTEGER)

    def real_attribute(self, name: str, default: float) -> float:
        value = self.attributes.get(name)
        return default if value is None else value.float32(AttributeField.FLOAT)

    def text_attribute(self, name: str, default: str) -> str:
        value = self.attributes.get(name)
        return default if value is None else value.text(AttributeField.TEXT)

    def texts_attribute(self, name: str) -> tuple[str, ...]:
        value = self.attributes.get(name)
        return () if value is None else value.texts(AttributeField.TEXTS)

    def list_attribute(self, name: str) -> tuple[int, ...] | None:
        """Return an integer list attribute; None if it is omitted."""
        value = self.attributes.get(name)
        if value is None:
            return None
        numbers = value.integers(AttributeField.INTEGERS)
        if numbers.size > MAX_LIST_LENGTH:
            raise ValueError(f"its list '{name}' has {numbers.size} numbers")
        return tuple(numbers.tolist())

    def real_list_attribute(self, name: str) -> tuple[float, ...] | None:
        value = self.attributes.get(name)
        return None if value is None else tuple(value.floats(AttributeField.FLOATS).tolist())

    def tensor_attribute(self, name: str) -> np.ndarray | None:
        value = self.attributes.get(name)
        tensor = None if value is None else value.message(AttributeField.TENSOR)
        return None if tensor is None else array_of(read_tensor(tensor), self.files)

    def list_or_input(self, name: str, index: int) -> tuple[int, ...] | None:
        """Return a list that is an attribute in older opsets and an input in newer ones."""
        if self.has(name):
            return self.list_attribute(name)
        return None if self.optional(index) is None else self.integers(index, name)

    def change(self, index: int, numbers: Shape) -> None:
        """Record the value of a constant of the file for the caller's batch."""
        name = self.input(index)
        new = np.asarray(numbers, self.builder.constants[name].dtype)
        if not np.array_equal(self.changed.setdefault(name, new), new):
            raise ValueError(f"'{name}' would need two values at once")


Convert = Callable[[Operation], None]

RULES: dict[str, Convert] = {}


def converts(*ops: str) -> Callable[[Convert], Convert]:
    """Register a function for operators; its docstring is shown to users.

    Operators of other domains than ONNX's own have a prefix: 'com.microsoft.FusedConv'. A rule
    checks `Operation.version` if versions differ.
    """
    return register(RULES, ops)
