"""An operator known only by what its file says: it runs where the file's own engine runs it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fourfold.errors import ModelError
from fourfold.op import Op, Types
from fourfold.types import TensorType


@dataclass(frozen=True)
class Foreign:
    """Which operators of the file it stands for, why they are not nodes, and what they give.

    `inputs` are the types of all that they read, constants of the file included; `dynamic`
    says that the sizes of the results are known only when they are there.
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
        f"{attributes.title} has no definition here",
        attributes.reason,
        f"install a CPU runtime of {attributes.format} models, or see fourfold.register_op",
    )


OP = Op(name="foreign", attributes=Foreign, infer=infer, reference=reference, cases=())
