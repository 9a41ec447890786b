"""Model: what a reader of any format gives back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from fourfold.errors import Refusal
from fourfold.graph import Graph
from fourfold.types import DType, Quantization, Shape


@dataclass(frozen=True)
class Signature:
    """A named way to call a model: its own names of inputs and outputs, each for one value."""

    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    subgraph: int = 0


class Origin(Protocol):
    """The main graph as the file has it, so that parts of it can run in the file's own engine.

    A unit is one operator of the file; its nodes have its name.
    """

    @property
    def titles(self) -> Mapping[str, str]:
        """The units of the graph, each with the operator as people know it: 'CONV_2D'."""

    @property
    def states(self) -> Mapping[str, tuple[str, ...]]:
        """The units that share something which outlives them, each with what it shares."""

    @property
    def content(self) -> bytes:
        """All of the file."""

    @property
    def outputs(self) -> tuple[int, ...]:
        """The tensors of the graph's outputs."""

    @property
    def values(self) -> Mapping[str, int]:
        """The tensors of the file by name."""

    def reads(self, unit: str) -> tuple[str, ...]:
        """The values that a unit needs and that the file does not hold itself."""

    def writes(self, unit: str) -> tuple[str, ...]:
        """The values that a unit gives."""

    def tensor(self, value: str) -> int | None:
        """The value's tensor in the file; None for a value that only the graph has."""

    def grid(self, value: str) -> tuple[Quantization, DType] | None:
        """How the file keeps a value that graphs see as real numbers: scale and integer type."""

    def rounds(self, unit: str) -> bool:
        """Whether the file's own engine rounds what a unit reads: floats beside integer weights."""

    def signature(self, value: str) -> tuple[int, ...]:
        """The sizes of a value with -1 where the file leaves one open; empty if it leaves none."""

    def unit(self, node: str) -> str:
        """The unit that nodes of this name belong to."""

    def write(
        self,
        units: Sequence[str],
        inputs: Sequence[str],
        outputs: Sequence[str],
    ) -> bytes:
        """A file with these units alone, which gets and gives these values."""


@dataclass(frozen=True)
class Model:
    """The graphs of a file. `graphs` is indexed as in the file; None where one cannot run here.

    `input_names` and `output_names` belong to the main graph, in its order, as the file gives them;
    a name that comes again gets a number: 'x', 'x:1'. Why a graph is None is in `refusals`.
    """

    main: Graph
    graphs: tuple[Graph | None, ...]
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    signatures: Mapping[str, Signature] = field(default_factory=dict)
    description: str = ""
    metadata: Mapping[str, np.ndarray] = field(default_factory=dict)
    refusals: tuple[Refusal, ...] = ()
    format: str = ""
    origin: Origin | None = None

    @property
    def open_sizes(self) -> tuple[Shape, ...]:
        """The sizes of each input with -1 where the file leaves one open; () if it leaves none."""
        origin = self.origin
        return () if origin is None else tuple(origin.signature(n) for n in self.main.arguments)


class Names:
    """Hands out names, with a number on those that are taken: 'x', 'x:1', 'x:2'."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._next: dict[str, int] = {}

    def fresh(self, name: str) -> str:
        found = name
        while found in self._taken:
            number = self._next[name] = self._next.get(name, 0) + 1
            found = f"{name}:{number}"
        self._taken.add(found)
        return found


def unique(names: Iterable[str]) -> tuple[str, ...]:
    """The same names, made different from each other."""
    taken = Names()
    return tuple(taken.fresh(name) for name in names)
