"""Base class and shared functions of engines that wrap a runtime: import it, report its errors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from fourfold.backends.cpu.protocol import ModelValues, PartRunner, RunModel
from fourfold.errors import Refusal, UnsupportedError
from fourfold.plan.tensor_binding import TensorBinding
from fourfold.support.log import Log
from fourfold.support.log.native_output import log_native_output
from fourfold.support.packages import installed_version

if TYPE_CHECKING:
    from fourfold.formats import Model
    from fourfold.formats.units import Unit
    from fourfold.plan import Part


class RuntimeEngine(ABC):
    """A CPU engine that wraps the runtime of a model format: each part is a file cut from the
    model's. See `CpuEngine` for the methods.
    """

    name: str
    title: str
    install: str

    @abstractmethod
    def installed(self) -> bool: ...

    @abstractmethod
    def version(self) -> str: ...

    @abstractmethod
    def is_tried(self, unit: Unit) -> bool:
        """Return True if only the runtime knows whether it can run a unit."""

    @abstractmethod
    def try_file(self, content: bytes) -> str:
        """Return why the runtime cannot open a file; '' if it can."""

    def refusal(self, model: Model, unit: Unit) -> str:
        """Return why the runtime cannot run a unit. A file with only the unit is opened to check
        one that the runtime may not know.
        """
        if not self.is_tried(unit):
            return ""
        source = model.source_graph
        assert source is not None, "units of a file have a source graph"
        content = source.write([unit.name], source.reads(unit.name), source.writes(unit.name))
        return self.try_file(content)

    @abstractmethod
    def open_part(self, part: Part, threads: int) -> PartRunner: ...

    @abstractmethod
    def open_model(
        self, model: str | bytes, inputs: Mapping[str, np.ndarray], threads: int | None
    ) -> RunModel: ...

    @abstractmethod
    def compute_values(self, model: Model, inputs: Sequence[np.ndarray]) -> ModelValues: ...


def first_line(error: Exception) -> str:
    """Return the first line of an error message."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def refused_part(engine: str, outputs: Sequence[TensorBinding], reason: str) -> UnsupportedError:
    """Return the error for a part that an engine cannot open. The part is named after its first
    output.
    """
    refusals = [Refusal(binding.name, "output", reason) for binding in outputs[:1]]
    return UnsupportedError(
        f"{engine} cannot run its part of the model",
        refusals or [Refusal("all operators", "part", reason)],
        "see 'fourfold check' for which operators stay on the CPU, and why",
    )


def import_runtime(name: str, log: Log) -> Any | None:
    """Return a module; None if its package is not installed, or cannot be imported, which is
    logged.
    """
    package = name.partition(".")[0]
    try:
        with log_native_output(log):
            return import_module(name)
    except ImportError as error:
        if installed_version(package) is not None:
            log.warn_once(f"{package} is installed but cannot be imported: {error}")
        return None
