"""Ops that users define for the custom operators of their models."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fourfold.errors import InputError
from fourfold.types import TensorType

Reference = Callable[..., Any]


@dataclass(frozen=True)
class CustomOp:
    """What a user said of an op; each function gets the operator's options as bytes first."""

    name: str
    reference: Reference
    infer: Callable[..., Sequence[TensorType]] | None = None
    pointwise: Callable[..., Any] | None = None
    kernel: Callable[[Any], None] | None = None


CUSTOM_OPS: dict[str, CustomOp] = {}


def register_op(
    name: str,
    *,
    infer: Callable[..., Sequence[TensorType]] | None = None,
    pointwise: Callable[..., Any] | None = None,
    kernel: Callable[[Any], None] | None = None,
) -> Callable[[Reference], Reference]:
    """Teach fourfold a custom op: the decorated function is its definition in NumPy.

        @fourfold.register_op("Scale2", pointwise=lambda options, x: x * 2.0)
        def scale2(options: bytes, x: np.ndarray) -> np.ndarray:
            return x * 2

    It gets the operator's custom options and one array for each input (None where one is left out),
    and returns an array, or a tuple of them. `pointwise` is the same as an expression over the
    inputs, for ops that work on each element alone; `kernel` writes kernels for the GPU; with
    neither the op runs on the CPU. `infer` gives the types of the results for the types of the
    inputs; without it the file is believed.
    """
    if not name:
        fix = "pass the name that the model file has"
        raise InputError("a custom op needs a name", "operators are found by it", fix)

    def register(reference: Reference) -> Reference:
        CUSTOM_OPS[name] = CustomOp(name, reference, infer, pointwise, kernel)
        return reference

    return register


def how_to_register(name: str, inputs: Sequence[object], outputs: Sequence[object]) -> str:
    """The code that teaches an unknown custom op, with the types that the model has."""
    function = re.sub(r"\W|^(?=\d)", "_", name).lower()
    arguments = "".join(f", x{number}" for number in range(len(inputs)))
    given = ", ".join(f"x{number}: {type}" for number, type in enumerate(inputs)) or "nothing"
    wanted = ", ".join(str(type) for type in outputs) or "nothing"
    return (
        f"tell fourfold what it does, before the model is opened:\n"
        f'      @fourfold.register_op("{name}")\n'
        f"      def {function}(options: bytes{arguments}):\n"
        f"          ...  # {given} -> {wanted}, as NumPy arrays"
    )
