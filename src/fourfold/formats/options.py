"""ReadOptions: options for reading a model of any format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from fourfold.errors import InputError
from fourfold.types import Shape


@dataclass(frozen=True)
class ReadOptions:
    """Options for reading a model.

    `shapes` sets input shapes by name. `signature` selects one of several graphs. Unsupported
    operators are refused, or with `keep_unsupported` become placeholder nodes if the format has a
    CPU engine that can run them; the same holds for operators on quantized values unless
    `quantized` allows them. With `follow_batch`, reshapes that contain a fixed batch follow the
    caller's batch; without it they are taken literally. Resource variables become states of the
    graph if every operator can be converted; `variables='cpu'` leaves them to the CPU engine.
    """

    shapes: Mapping[str, Shape] = field(default_factory=dict)
    signature: str | None = None
    keep_unsupported: bool = False
    quantized: bool = True
    follow_batch: bool = True
    variables: Literal["auto", "cpu"] = "auto"

    def refuse_signature(self, title: str) -> None:
        """Raise InputError if a signature was set, for formats that have none."""
        if self.signature is not None:
            what, why = f"no signature '{self.signature}'", f"{title} models have no signatures"
            raise InputError(what, why, "leave the signature out")


DEFAULTS = ReadOptions()
