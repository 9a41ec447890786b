"""Quantization methods: data types of weights, activations and biases."""

from __future__ import annotations

from dataclasses import dataclass

from fourfold.errors import InputError, nearest
from fourfold.types import DType


@dataclass(frozen=True)
class Method:
    """Data types of weights, of values between nodes, and of biases; None stays float.

    `integer_ports` also stores the model's inputs and outputs in the type of values.
    """

    name: str
    weights: DType
    values: DType | None = None
    bias: DType | None = None
    integer_ports: bool = False

    @property
    def calibrates(self) -> bool:
        """True if the ranges of values must be known."""
        return self.values is not None


METHODS = {
    method.name: method
    for method in (
        Method("dynamic", DType.I8),
        Method("int8", DType.I8, DType.I8, DType.I32),
        Method("int16x8", DType.I8, DType.I16, DType.I64),
        Method("fp16", DType.F16, None, DType.F16),
        Method("weights-int4", DType.I4),
    )
}


def find_method(name: str) -> Method:
    """Return a method by name."""
    if name not in METHODS:
        why = f"methods are {', '.join(METHODS)}"
        raise InputError(f"there is no method {name!r}", why, nearest(str(name), METHODS))
    return METHODS[name]
