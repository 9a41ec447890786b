"""OperatorList: the operators and constants of an ONNX file under construction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fourfold.formats.onnx.schema import ELEMENTS, Element, TensorField
from fourfold.formats.protobuf import MessageWriter
from fourfold.types import DType, Quantization, Shape, to_integers

MIN_INT4, MAX_INT4 = -8, 7


@dataclass(frozen=True, eq=False)
class Initializer:
    """A constant: its data, element type and shape; 4-bit numbers are packed two per byte."""

    element: int
    shape: Shape
    numbers: np.ndarray

    @staticmethod
    def of(array: np.ndarray) -> Initializer:
        return Initializer(ELEMENTS[DType.of(array)], array.shape, array)

    def message(self, name: str) -> MessageWriter:
        little = np.ascontiguousarray(self.numbers, self.numbers.dtype.newbyteorder("<"))
        message = MessageWriter().integers(TensorField.SHAPE, self.shape)
        message.integer(TensorField.ELEMENT, self.element).text(TensorField.NAME, name)
        return message.block(TensorField.RAW, little.reshape(-1).view(np.uint8).data)


def element_of(dtype: DType) -> int:
    return Element.INT4 if dtype is DType.I4 else ELEMENTS[dtype]


def stored_numbers(array: np.ndarray, dtype: DType, quantization: Quantization) -> np.ndarray:
    """Quantize real numbers; 4-bit integers are returned as bytes."""
    if dtype is not DType.I4:
        return to_integers(array, quantization, dtype)
    return to_integers(array, quantization, DType.I8).clip(MIN_INT4, MAX_INT4)


def stored_initializer(numbers: np.ndarray, dtype: DType) -> Initializer:
    if dtype is not DType.I4:
        return Initializer.of(numbers)
    flat = np.append(numbers.reshape(-1), np.zeros(numbers.size % 2, np.int8)).view(np.uint8)
    pairs = (flat[0::2] & 15) | (flat[1::2] & 15) << 4
    return Initializer(Element.INT4, numbers.shape, pairs)


Attribute = int | float | str | Sequence[int]
MAX_SHARED_BYTES = 64  # bytes up to which equal constants are shared


@dataclass(frozen=True)
class WrittenNode:
    """One operator; '' stands for an omitted input."""

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Attribute]


@dataclass(frozen=True)
class Port:
    """An input or output."""

    name: str
    element: int
    shape: Shape


@dataclass
class OperatorList:
    """Collects operators and constants.

    Tensors have internal names; `names` maps them to names in the file. `title` is the prefix of
    tensors without a better name.
    """

    title: str = ""
    nodes: list[WrittenNode] = field(default_factory=list)
    initializers: dict[str, Initializer] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    _taken: set[str] = field(default_factory=set)
    _small: dict[tuple[str, Shape, bytes], str] = field(default_factory=dict)

    def fresh(self, name: str) -> str:
        """Return a name that is not in use."""
        unused, count = name, 0
        while unused in self._taken:
            count += 1
            unused = f"{name}:{count}"
        self._taken.add(unused)
        return unused

    def reserve(self, names: Sequence[str]) -> None:
        """Reserve names that callers know."""
        self._taken.update(names)

    def add(self, op: str, *inputs: str | None, **attributes: Attribute) -> str:
        """Add an operator with one result and return the result."""
        return self.add_several(op, inputs, 1, attributes)[0]

    def add_several(
        self,
        op: str,
        inputs: Sequence[str | None],
        results: int,
        attributes: Mapping[str, Attribute],
    ) -> tuple[str, ...]:
        read = [name or "" for name in inputs]
        while read and not read[-1]:
            read.pop()
        results_ = tuple(self.fresh(f"{self.title}/{op}") for _ in range(results))
        self.nodes.append(WrittenNode(op, tuple(read), results_, dict(attributes)))
        return results_

    def constant(self, array: np.ndarray, name: str = "") -> str:
        """Add a constant; small equal ones are shared."""
        key = (
            array.dtype.str,
            array.shape,
            array.tobytes() if array.nbytes <= MAX_SHARED_BYTES else b"",
        )
        if not name and key[2] and key in self._small:
            return self._small[key]
        tensor = self.fresh(name or f"{self.title}/constant")
        self.initializers[tensor] = Initializer.of(array)
        if not name:
            self._small[key] = tensor
        return tensor

    def number(self, value: float, dtype: DType = DType.F32) -> str:
        return self.constant(np.asarray(value, dtype.numpy))

    def integers(self, values: Sequence[int]) -> str:
        """Add sizes, axes and similar numbers as int64."""
        return self.constant(np.asarray(values, np.int64))

    def call(self, tensor: str, name: str) -> None:
        """Name the result of the last operator in the file, unless it has a name."""
        is_new = self.nodes and tensor in self.nodes[-1].outputs
        if is_new and tensor not in self.names and tensor != name:
            self.names[tensor] = self.fresh(name)
