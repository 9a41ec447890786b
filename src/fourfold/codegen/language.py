"""Language: renders kernels as text of one GPU language.

Languages are found by name: each is a folder next to this file with a module `language`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Protocol

import numpy as np

from fourfold import codegen
from fourfold.codegen.capabilities import Capabilities
from fourfold.codegen.context import KernelOptions, Target
from fourfold.codegen.kernel import Kernel
from fourfold.codegen.stage import Stage
from fourfold.codegen.walk import Node
from fourfold.device import DEFAULT_COMPUTE_UNITS, DeviceInfo
from fourfold.errors import DeviceError, nearest
from fourfold.plan.stage_clocks import StageClock


@dataclass(frozen=True)
class Prelude:
    """The parts of a program besides its kernels: text, build options and language version.

    `facts` are the device facts that its text depends on, whatever nodes the kernels have.
    """

    text: str
    build_options: str
    version: str
    facts: frozenset[str] = frozenset()


@dataclass(frozen=True)
class JoinedRun:
    """Stages as one launch: the table that the persistent kernel walks, and a description."""

    table: np.ndarray
    title: str


@dataclass(frozen=True)
class JoinedStages:
    """A persistent kernel: its text, without the prelude, and its launch parameters.

    Each run of stages is a launch of its own. The arguments are all buffers, the number of stages,
    and the offset of the table in the constants. `kernels` has one kernel per distinct text.
    """

    text: str
    entry: str
    grid: tuple[int, ...]
    local: tuple[int, ...]
    runs: tuple[JoinedRun, ...]
    kernels: tuple[Kernel, ...]
    local_bytes: int = 0  # local memory that launches must allocate


class Persistent(Protocol):
    """Interface for running all stages of a plan with one kernel."""

    def refuses(self, stages: Sequence[Stage], device: DeviceInfo) -> str | None:
        """Return why these stages cannot be one launch, or None."""

    def shares(self, device: DeviceInfo) -> bool:
        """Return whether groups share the work of a stage and wait at grid barriers.

        Independent stages may then run side by side.
        """

    def waits_cheaply(self, device: DeviceInfo) -> bool:
        """Return whether a waiting group leaves its compute unit to others."""

    def state_bytes(self, stages: int, device: DeviceInfo) -> int:
        """Return the size of the state with which groups synchronize, the last buffer."""

    def stage_clock(self, device: DeviceInfo) -> StageClock | None:
        """Return the clock that groups can read, if the device has one."""

    def join(
        self,
        runs: Sequence[Sequence[Stage]],
        device: DeviceInfo,
        buffers: int,
        host_protocol: int | None,
        clock: StageClock | None = None,
    ) -> JoinedStages:
        """Build the kernel that runs all stages.

        `buffers` is their number, and `host_protocol` the one used for the handshake with the host.
        With a clock, groups record after the state when they finished each stage.
        """


class Language(Protocol):
    """One GPU language. Its folder in `kernel` provides it as LANGUAGE in the module `language`."""

    @property
    def capabilities(self) -> Capabilities:
        """Features that its kernels may use."""

    @property
    def persistent(self) -> Persistent | None:
        """Joins all stages of a plan into one launch; None if the language cannot."""

    def render(
        self,
        kernel: Kernel,
        entry: str,
        images: frozenset[str] = frozenset(),
        buffers: Sequence[int] = (),
    ) -> str:
        """Return the text of one entry point.

        Its parameters are, for each buffer, the buffer and an offset in elements, then all sizes.
        `images` names the pointers that are read as images. `buffers` has for each pointer the
        number of the first pointer into the same buffer.
        """

    def prelude(self, special: Sequence[Node], target: Target) -> Prelude:
        """Return the prelude for kernels with these special nodes."""


def make_target(language: Language, device: DeviceInfo, options: KernelOptions) -> Target:
    """Return the target: options, and the device facts that the language can use."""
    able, persistent = language.capabilities, language.persistent is not None
    # Copy the record only if something is missing: usually it is the same device.
    missing: dict[str, object] = {"compute_units": device.units or DEFAULT_COMPUTE_UNITS}
    if device.dot_products not in able.dot_products:
        missing["dot_products"] = ""
    if device.subgroups not in able.subgroups:
        missing["subgroups"] = ""
    if not able.matrix_fragments:
        missing["matrix_units"] = False
    if "half" not in able.kinds:
        missing["half_arithmetic"] = False
    if not able.images:
        missing |= {"image_texels": 0, "image_windows": False, "prefers_images": False}
    if not able.local_memory:
        missing |= {"local_memory": 0, "max_work_group": 1}
    if not persistent:
        missing["resident"] = False
    if not (persistent and able.host_addresses):
        missing["reaches_host"] = False
    changed = {name: value for name, value in missing.items() if getattr(device, name) != value}
    limited = replace(device, **changed) if changed else device  # type: ignore[arg-type]
    return Target(limited, options, able)


def languages() -> tuple[str, ...]:
    """Return the names of all languages."""
    folders = [info.name for info in iter_modules(codegen.__path__) if info.ispkg]
    return tuple(name for name in folders if _has_language(name))


def _has_language(folder: str) -> bool:
    """Return whether a folder is a language and not code that languages share."""
    paths = (os.path.join(path, folder, "language.py") for path in codegen.__path__)
    return any(map(os.path.isfile, paths))


@cache
def find_language(name: str) -> Language:
    """Import and return a language."""
    if name not in languages():
        why = f"supported languages: {', '.join(languages())}"
        raise DeviceError(f"unknown kernel language {name!r}", why, nearest(name, languages()))
    language: Language = import_module(f"{codegen.__name__}.{name}.language").LANGUAGE
    return language
