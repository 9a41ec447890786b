"""Methods: what is stored as integers or halves, and in which of them."""

from __future__ import annotations

from dataclasses import dataclass

from fourfold.errors import InputError, nearest
from fourfold.types import DType


@dataclass(frozen=True)
class Method:
    """The types of weights, of the values between nodes, and of biases; None leaves floats.

    `integer_ports` says that inputs and outputs of the model are of the type of values, too.
    """

    name: str
    weights: DType
    values: DType | None = None
    bias: DType | None = None
    integer_ports: bool = False

    @property
    def calibrates(self) -> bool:
        """Whether the ranges of values must be known."""
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


def method_named(name: str) -> Method:
    """A method by its name."""
    if name not in METHODS:
        why = f"methods are {', '.join(METHODS)}"
        raise InputError(f"there is no way {name!r} to quantise", why, nearest(str(name), METHODS))
    return METHODS[name]
