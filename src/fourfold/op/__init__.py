"""What the project knows of one kind of operation: its type rule, its reference, its kernels, its
cases.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fourfold.errors import ModelError
from fourfold.graph import NONE, NoAttributes, Node
from fourfold.kernel.context import NodeContext
from fourfold.kernel.expression import Expression
from fourfold.kernel.location import (
    Channel,
    Location,
    dequantized_location,
    picture_location,
    planes_location,
)
from fourfold.types import TensorType

Types = tuple[TensorType, ...]


@dataclass(frozen=True)
class Case:
    """One way to test an op: input types as text ('f32[2,3,5]'), attributes, and which inputs are
    constant.
    """

    inputs: tuple[str | None, ...]
    attributes: object = NONE
    constants: tuple[int, ...] = ()
    low: float = -3.0
    high: float = 3.0
    tolerance: float = 1.0  # times the tolerance of the dtype; more than one needs a comment


@dataclass(frozen=True)
class Region:
    """Input `part` is the box of the output that starts at `start` along `axis`, or the other way
    round.
    """

    part: int
    axis: int
    start: int


@dataclass(frozen=True)
class Alias:
    """An op that moves nothing: its result is another look at the same memory.

    `kind` is 'same' (reshape: input and output hold the same elements in the same order), 'join'
    (each input is a box of the output), 'cut' (the output is a box of the input), 'dequantize'
    (the output is what the input's integers stand for: (stored - zero_point) * scale), 'picture'
    (the output has `channels` of the input's bytes), 'read planes' (the output's channels are the
    planes of the input) or 'write planes' (the other way round: the input lies in the output).
    """

    kind: str
    regions: tuple[Region, ...] = ()
    scale: float = 1.0
    zero_point: int = 0
    channels: tuple[Channel, ...] = ()
    planes: TensorType | None = None

    @property
    def converts(self) -> bool:
        """Whether what is read, or written, is not what lies there."""
        return self.kind in ("dequantize", "picture", "read planes", "write planes")

    @property
    def inward(self) -> bool:
        """Whether it is the input that lies inside the output, and is converted."""
        return self.kind == "write planes"

    def converted(self, place: Location) -> Location | None:
        """The place of the output inside that of the input, if it can be read there; if `inward`
        the place of the input inside that of the output.
        """
        if self.planes is not None:
            return planes_location(place, self.planes)
        if self.channels:
            return picture_location(place, self.channels)
        return dequantized_location(place, self.scale, self.zero_point)


@dataclass(frozen=True)
class Variant:
    """One way to run an op: `refuses` says why not (or None), `build` writes the kernels.

    `choices` lists the forms that the kernels can take, as text, the most promising first; `build`
    finds the one to write in `context.choice`, and takes its own default where that is None.
    `suits` tells whether to take it where nothing was timed. `buys_speed` is set where others need
    less memory: it keeps larger weights, or a copy of what it reads.
    """

    name: str
    build: Callable[[NodeContext], None]
    refuses: Callable[[NodeContext], str | None] = lambda context: None
    choices: Callable[[NodeContext], list[str]] = lambda context: []
    suits: Callable[[NodeContext], bool] = lambda context: True
    buys_speed: bool = False


@dataclass(frozen=True)
class Op:
    """One op. `reference(attributes, *arrays)` is the definition; all else must agree with it."""

    name: str
    infer: Callable[..., Types]
    reference: Callable[..., np.ndarray | tuple[np.ndarray, ...]]
    cases: tuple[Case, ...]
    attributes: type = NoAttributes
    heavy: bool = False  # each result looks at many elements: the reference may take long
    pointwise: Callable[..., Expression] | None = None
    variants: tuple[Variant, ...] = ()
    view: Callable[[Node, Types, Types], Alias | None] | None = None
    bounds: tuple[float, float] | None = None  # its results lie between these, whatever it gets


def reject(op: str, why: str) -> ModelError:
    """The error of a type rule: the node's inputs do not fit the op."""
    return ModelError(f"{op} cannot take these inputs", why, "check how the model was exported")
