"""How a converter says no: exceptions that the conversion of a graph catches and collects."""

from __future__ import annotations

from fourfold.types import DType, TensorType


class Unconvertible(Exception):
    """An operator cannot be converted; the reason goes into the list of refusals."""


class TypeMismatch(Exception):
    """A type rule says that the inputs do not fit the op."""

    def __init__(self, op: str, why: str, types: tuple[TensorType | None, ...]) -> None:
        super().__init__(op, why, types)
        self.why = f"{op}: {why}"
        self.only_floats = all(type is None or type.dtype is DType.F32 for type in types)
