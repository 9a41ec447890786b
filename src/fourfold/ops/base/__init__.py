"""The definition of an op (type rule, NumPy reference, kernels, test cases), and the registry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

import numpy as np

from fourfold.codegen.context import NodeContext
from fourfold.codegen.expression import Expression
from fourfold.codegen.location import (
    Channel,
    Location,
    dequantized_location,
    picture_location,
    planes_location,
)
from fourfold.errors import ModelError
from fourfold.graph import NONE, NoAttributes, Node
from fourfold.types import TensorType

Types = tuple[TensorType, ...]


@dataclass(frozen=True)
class Case:
    """One test of an op: input types as text ('f32[2,3,5]'), attributes and constant inputs.

    `constants` lists the positions of inputs that are constants. Random inputs lie between `low`
    and `high`.
    """

    inputs: tuple[str | None, ...]
    attributes: object = NONE
    constants: tuple[int, ...] = ()
    low: float = -3.0
    high: float = 3.0
    tolerance: float = 1.0  # factor on the dtype's tolerance; above 1 needs a comment


@dataclass(frozen=True)
class Region:
    """A box along one axis: input `part` and the output's elements from `start` on `axis` match.

    In a join, the input is a box of the output. In a cut, the output is a box of the input.
    """

    part: int
    axis: int
    start: int


@dataclass(frozen=True)
class Alias:
    """The result of an op that moves no data: another view of the same memory.

    `kind` is one of:

    'same'          input and output hold the same elements in the same order (reshape)
    'join'          each input is a box of the output (concat)
    'cut'           the output is a box of the input (slice)
    'dequantize'    the output is (stored - zero_point) * scale of the input's integers
    'picture'       the output's `channels` are read from the input's bytes
    'read planes'   the output's channels are the planes of the input
    'write planes'  the input's channels are the planes of the output
    """

    kind: str
    regions: tuple[Region, ...] = ()
    scale: float = 1.0
    zero_point: int = 0
    channels: tuple[Channel, ...] = ()
    planes: TensorType | None = None

    @property
    def converts(self) -> bool:
        """True if a reader or writer must convert the stored elements."""
        return self.kind in ("dequantize", "picture", "read planes", "write planes")

    @property
    def inward(self) -> bool:
        """True if the input is stored inside the output, instead of the reverse."""
        return self.kind == "write planes"

    def converted(self, location: Location) -> Location | None:
        """Return the output's location inside the input's, or None if it cannot be read there.

        If `inward` is set, return the input's location inside the output's.
        """
        if self.planes is not None:
            return planes_location(location, self.planes)
        if self.channels:
            return picture_location(location, self.channels)
        return dequantized_location(location, self.scale, self.zero_point)


@dataclass(frozen=True)
class Variant:
    """One implementation of an op: `build` writes its kernels.

    `refuses` returns the reason why the variant cannot run a node, or None. `choices` lists the
    kernel choices as text, the most promising first. `build` reads the selected one from
    `context.choice` and uses a default if that is None. `suits` returns True if the variant should
    be used without timing it first. `uses_more_memory` is set for variants that need more memory
    than others, for larger weights or a copy of the input.
    """

    name: str
    build: Callable[[NodeContext], None]
    refuses: Callable[[NodeContext], str | None] = lambda context: None
    choices: Callable[[NodeContext], list[str]] = lambda context: []
    suits: Callable[[NodeContext], bool] = lambda context: True
    uses_more_memory: bool = False


@dataclass(frozen=True)
class IndexRange:
    """The valid values of an input that holds indices: from `low` to `high`, both included.

    Each has one number for all indices, or one for each position along the last axis.
    """

    input: int
    low: tuple[int, ...]
    high: tuple[int, ...]

    def first_outside(self, indices: np.ndarray) -> tuple[int, ...] | None:
        """Return the position of the first index that is out of range, or None."""
        outside = (indices < np.array(self.low)) | (indices > np.array(self.high))
        return tuple(map(int, np.argwhere(outside)[0])) if outside.any() else None

    def __str__(self) -> str:
        pairs = dict.fromkeys(zip(self.low, self.high, strict=True))
        return ", ".join(f"{low} to {high}" for low, high in pairs)


@dataclass(frozen=True)
class Op:
    """An operation. `reference(attributes, *arrays)` defines it; kernels must agree with it."""

    name: str
    infer: Callable[..., Types]
    reference: Callable[..., np.ndarray | tuple[np.ndarray, ...]]
    cases: tuple[Case, ...]
    attributes: type = NoAttributes
    heavy: bool = False  # each result depends on many elements, so the reference may be slow
    pointwise: Callable[..., Expression] | None = None
    variants: tuple[Variant, ...] = ()
    view: Callable[[Node, Types, Types], Alias | None] | None = None
    bounds: tuple[float, float] | None = None  # range of the results, for any input
    # The valid indices, for an op that reads or writes elements which an input selects. Kernels
    # must tolerate all others.
    indices: Callable[..., IndexRange] | None = None


def reject(op: str, why: str) -> ModelError:
    """Return the error of a type rule whose inputs do not fit the op."""
    return ModelError(f"{op} cannot take these inputs", why, "check how the model was exported")


OPS = "fourfold.ops"


@cache
def registry() -> Mapping[str, Op]:
    """Return all ops by name."""
    folder = import_module(OPS)
    names = [info.name for info in iter_modules(folder.__path__) if not info.ispkg]
    return {name: import_module(f"{OPS}.{name}").OP for name in names}
