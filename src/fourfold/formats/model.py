"""Model: what a reader of any format gives back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from fourfold.errors import Refusal
from fourfold.graph import Graph


@dataclass(frozen=True)
class Signature:
    """A named way to call a model: its own names of inputs and outputs, each for one value."""

    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    subgraph: int = 0


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
