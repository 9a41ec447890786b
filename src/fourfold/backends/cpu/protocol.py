"""What every CPU engine offers: parts of models made ready, and whole models to compare with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from fourfold.types import Shape

if TYPE_CHECKING:
    from fourfold.formats import Model
    from fourfold.formats.units import Unit
    from fourfold.plan import Part

Results = dict[str, np.ndarray]
Direct = Callable[[Any], Results | None]
Lock = AbstractContextManager[object]
Wanted = Sequence[bool]  # for each output whether somebody needs it
RunModel = Callable[[], Sequence[np.ndarray]]


class PartRunner(Protocol):
    """A part made ready. What `run` gives is valid until the next run."""

    def run(self, arrays: Sequence[np.ndarray], wanted: Wanted | None = None) -> list[Any]:
        """The part's outputs for its inputs, both in the part's order. Those that nobody wants may
        be None.
        """

    def shapes(self) -> Mapping[str, Shape]:
        """The shapes of results that only the engine knows."""

    def direct(
        self, inputs: Mapping[str, str], outputs: Mapping[str, str], lock: Lock
    ) -> Direct | None:
        """The shortest way from the caller's names to the caller's names, each with its value, for
        a model that is this part alone; None where there is none.
        """

    def reset(self) -> None:
        """Forget all states."""

    def close(self) -> None:
        """Give back what it holds."""


class ModelValues(Protocol):
    """The values of a model after a run, as its graph sees them."""

    def has(self, value: str) -> bool: ...

    def value(self, value: str) -> np.ndarray: ...


class CpuEngine(Protocol):
    """A runtime for the CPU. To ask for an engine does not import the runtime itself."""

    @property
    def name(self) -> str:
        """That of its folder, of the targets in placements, and of `Format.cpu_engine`."""

    @property
    def title(self) -> str:
        """As people know it."""

    @property
    def install(self) -> str:
        """The command that installs it."""

    def installed(self) -> bool: ...

    def version(self) -> str:
        """Which one is installed, in words, told without importing it; 'none' where it is not."""

    def refusal(self, model: Model, unit: Unit) -> str:
        """Why it cannot run a unit of a model; '' where it can. The same for units of one title,
        where they are operators of a file.
        """

    def open_part(self, part: Part, threads: int) -> PartRunner:
        """A part whose target is this engine, made ready."""

    def open_model(
        self, model: str | bytes, inputs: Mapping[str, np.ndarray], threads: int | None
    ) -> RunModel:
        """A function that runs a whole model once on these inputs, which are in its own order.

        Raises InputError where the engine does not take their shapes.
        """

    def compute_values(self, model: Model, inputs: Sequence[np.ndarray]) -> ModelValues:
        """All values of a model for these inputs."""
