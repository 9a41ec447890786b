"""The interface of CPU engines: they run parts of models, and whole models for comparison."""

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
Wanted = Sequence[bool]  # for each output whether it is needed
RunModel = Callable[[], Sequence[np.ndarray]]


class PartRunner(Protocol):
    """A part that is ready to run. Results of `run` are valid until the next run."""

    def run(self, arrays: Sequence[np.ndarray], wanted: Wanted | None = None) -> list[Any]:
        """Return the part's outputs for its inputs, both in the part's order. Outputs that are not
        wanted may be None.
        """

    def shapes(self) -> Mapping[str, Shape]:
        """Return the shapes of results that only the engine knows."""

    def direct(
        self, inputs: Mapping[str, str], outputs: Mapping[str, str], lock: Lock
    ) -> Direct | None:
        """Return the fast path of a model that is this part alone; None if there is none. `inputs`
        and `outputs` map the caller's names to values.
        """

    def reset(self) -> None:
        """Reset all states."""

    def close(self) -> None:
        """Release all resources."""


class ModelValues(Protocol):
    """The values of a model after a run, as its graph sees them."""

    def has(self, value: str) -> bool: ...

    def value(self, value: str) -> np.ndarray: ...


class CpuEngine(Protocol):
    """A runtime for the CPU. Finding an engine does not import the runtime itself."""

    @property
    def name(self) -> str:
        """Name of its folder, of its target in placements, and of `Format.cpu_engine`."""

    @property
    def title(self) -> str:
        """Display name of the engine."""

    @property
    def install(self) -> str:
        """Command that installs the engine."""

    def installed(self) -> bool: ...

    def version(self) -> str:
        """Return the name and version of the installed package, without importing it; 'none' if it
        is not installed.
        """

    def refusal(self, model: Model, unit: Unit) -> str:
        """Return why the engine cannot run a unit of a model; '' if it can. Operators of a file
        with the same title have the same answer.
        """

    def open_part(self, part: Part, threads: int) -> PartRunner:
        """Return a runner for a part whose target is this engine."""

    def open_model(
        self, model: str | bytes, inputs: Mapping[str, np.ndarray], threads: int | None
    ) -> RunModel:
        """Return a function that runs a whole model once on these inputs, which are in its own
        order. Each call reads the arrays anew, so that a caller may change their content.

        Raises InputError if the engine does not accept their shapes.
        """

    def compute_values(self, model: Model, inputs: Sequence[np.ndarray]) -> ModelValues:
        """Return all values of a model for these inputs."""
