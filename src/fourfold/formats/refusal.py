"""Exceptions of convert functions, which the conversion of a graph catches and collects."""

from __future__ import annotations

from fourfold.types import DType, TensorType


class Unconvertible(Exception):
    """Raised for an operator that cannot be converted; the reason becomes a refusal."""


class TypeMismatch(Exception):
    """Raised when a type rule rejects the inputs of an op."""

    def __init__(self, op: str, why: str, types: tuple[TensorType | None, ...]) -> None:
        super().__init__(op, why, types)
        self.why = f"{op}: {why}"
        self.only_floats = all(type is None or type.dtype is DType.F32 for type in types)
