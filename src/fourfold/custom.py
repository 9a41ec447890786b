"""Ops that users register for the custom operators of their models."""

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
    """A registered op; each function receives the operator's options as bytes first."""

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
    """Register a custom op; the decorated function is its definition in NumPy.

        @fourfold.register_op("Scale2", pointwise=lambda options, x: x * 2.0)
        def scale2(options: bytes, x: np.ndarray) -> np.ndarray:
            return x * 2

    The function receives the operator's custom options and one array per input (None for an
    omitted one), and returns an array or a tuple of them. Without `pointwise` and `kernel`, the op
    runs on the CPU.

    Args:
        name: The name of the operator in the model file.
        infer: Returns the types of the results for the types of the inputs. The default is to use
            the types in the file.
        pointwise: The op as an expression over the inputs, if it works element by element.
        kernel: Writes kernels for the GPU.
    """
    if not name:
        fix = "pass the name that the model file has"
        raise InputError("a custom op needs a name", "operators are identified by name", fix)

    def register(reference: Reference) -> Reference:
        CUSTOM_OPS[name] = CustomOp(name, reference, infer, pointwise, kernel)
        return reference

    return register


def registration_example(name: str, inputs: Sequence[object], outputs: Sequence[object]) -> str:
    """Return example code that registers an unknown custom op with the model's types."""
    function = re.sub(r"\W|^(?=\d)", "_", name).lower()
    arguments = "".join(f", x{number}" for number in range(len(inputs)))
    input_list = ", ".join(f"x{number}: {type}" for number, type in enumerate(inputs)) or "nothing"
    output_list = ", ".join(str(type) for type in outputs) or "nothing"
    return (
        f"register an implementation before opening the model:\n"
        f'      @fourfold.register_op("{name}")\n'
        f"      def {function}(options: bytes{arguments}):\n"
        f"          ...  # {input_list} -> {output_list}, as NumPy arrays"
    )
