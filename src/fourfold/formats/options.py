"""ReadOptions: what a caller may say about how a model is read, in any format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from fourfold.errors import InputError
from fourfold.types import Shape


@dataclass(frozen=True)
class ReadOptions:
    """`shapes` sets input shapes by name; `signature` chooses one of several graphs.

    What cannot be converted is refused, or with `keep_unsupported` becomes a node that stands for
    it, if the format has a CPU engine to run that; so is what works on quantised values unless
    `quantized` allows it. With `follow_batch`, a batch goes through reshapes that have another one
    written into them; without it they are taken literally. Resource variables are states of the
    graph where every operator can be converted; `variables='cpu'` leaves them to the CPU engine.
    """

    shapes: Mapping[str, Shape] = field(default_factory=dict)
    signature: str | None = None
    keep_unsupported: bool = False
    quantized: bool = True
    follow_batch: bool = True
    variables: Literal["auto", "cpu"] = "auto"

    def refuse_signature(self, title: str) -> None:
        """For formats whose models can be called in one way only."""
        if self.signature is not None:
            what, why = f"no signature '{self.signature}'", f"{title} models have none"
            raise InputError(what, why, "leave the signature out")


DEFAULTS = ReadOptions()
