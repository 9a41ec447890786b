"""Operators without a definition in this package; they run on a CPU runtime of their format."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fourfold.errors import ModelError
from fourfold.ops.base import Op, Types
from fourfold.types import TensorType


@dataclass(frozen=True)
class Foreign:
    """The file's operators that this node replaces, the reason, and their result types.

    `inputs` are the types of everything the operators read, constants of the file included.
    `dynamic` is set if the sizes of the results are known only after they ran.
    """

    format: str
    operators: tuple[int, ...]
    title: str
    reason: str
    types: Types
    inputs: Types = ()
    dynamic: bool = False


def infer(attributes: Foreign, *types: TensorType | None) -> Types:
    return attributes.types


def reference(attributes: Foreign, *arrays: np.ndarray | None) -> tuple[np.ndarray, ...]:
    raise ModelError(
        f"{attributes.title} cannot be computed",
        attributes.reason,
        f"install a CPU runtime for {attributes.format} models, or see fourfold.register_op",
    )


OP = Op(name="foreign", attributes=Foreign, infer=infer, reference=reference, cases=())
