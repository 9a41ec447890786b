"""Language: how kernels become the text of one GPU language. Each is a folder beside this file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from fourfold.device import PLAIN_UNITS, DeviceInfo
from fourfold.kernel.capabilities import Capabilities
from fourfold.kernel.context import KernelOptions, Target
from fourfold.kernel.kernel import Kernel
from fourfold.kernel.stage import Stage
from fourfold.kernel.walk import Node
from fourfold.plan.stage_clocks import StageClock


@dataclass(frozen=True)
class Prelude:
    """What a program needs beside its kernels: text before them, how it is built, and in which
    version of the language it is written.

    `facts` are those of a device on which its spelling rests, whatever nodes the kernels have.
    """

    text: str
    build_options: str
    version: str
    facts: frozenset[str] = frozenset()


@dataclass(frozen=True)
class JoinedRun:
    """Some stages as one launch: the table that the persistent kernel walks, and what they are in
    words.
    """

    table: np.ndarray
    title: str


@dataclass(frozen=True)
class JoinedStages:
    """A persistent kernel: its text, without the prelude, and how it is launched.

    Each run of stages is a launch of its own. Its arguments are all buffers, how many stages there
    are, and where in the constants the table is. `kernels` has one kernel of each text.
    """

    text: str
    entry: str
    grid: tuple[int, ...]
    local: tuple[int, ...]
    runs: tuple[JoinedRun, ...]
    kernels: tuple[Kernel, ...]
    local_bytes: int = 0  # of local memory that launches must ask for


class Persistent(Protocol):
    """How a language has one kernel run all stages of a plan."""

    def refuses(self, stages: Sequence[Stage], device: DeviceInfo) -> str | None:
        """Why these stages cannot be one launch, or None."""

    def shares(self, device: DeviceInfo) -> bool:
        """Whether groups share the work of a stage and wait at grid barriers, so that stages that
        need nothing of each other may run side by side.
        """

    def waits_cheaply(self, device: DeviceInfo) -> bool:
        """Whether a group that waits leaves its unit to others."""

    def state_bytes(self, stages: int, device: DeviceInfo) -> int:
        """By what groups tell each other how far they are: the last buffer."""

    def stage_clock(self, device: DeviceInfo) -> StageClock | None:
        """By what groups tell the time, if the device has anything for it."""

    def join(
        self,
        runs: Sequence[Sequence[Stage]],
        device: DeviceInfo,
        buffers: int,
        host_protocol: int | None,
        clock: StageClock | None = None,
    ) -> JoinedStages:
        """The kernel that runs all stages; there are so many buffers, by one of which it may speak
        with the host. With a clock groups note when they were done with a stage, behind the state.
        """


class Language(Protocol):
    """One GPU language. A folder of `kernel` offers it as LANGUAGE in its module `language`."""

    @property
    def capabilities(self) -> Capabilities:
        """What its kernels may hold."""

    @property
    def persistent(self) -> Persistent | None:
        """How all stages of a plan become one launch, if they can."""

    def render(
        self,
        kernel: Kernel,
        entry: str,
        images: frozenset[str] = frozenset(),
        buffers: Sequence[int] = (),
    ) -> str:
        """The text of one entry point. Its parameters are, for each buffer, the buffer and an
        offset in elements, then all sizes; `images` names the pointers that are read by image,
        `buffers` has for each pointer the number of the first that leads into the same buffer.
        """

    def prelude(self, special: Sequence[Node], target: Target) -> Prelude:
        """What goes before kernels that have these special nodes."""


def make_target(language: Language, device: DeviceInfo, options: KernelOptions) -> Target:
    """For what kernels are written: of the device's facts those that the language can use."""
    able, persistent = language.capabilities, language.persistent is not None
    # A new record only where something is missing: most of the time it is the same device.
    lost: dict[str, object] = {"compute_units": device.units or PLAIN_UNITS}
    if device.dot_products not in able.dot_products:
        lost["dot_products"] = ""
    if device.subgroups not in able.subgroups:
        lost["subgroups"] = ""
    if not able.matrix_fragments:
        lost["matrix_units"] = False
    if "half" not in able.kinds:
        lost["half_arithmetic"] = False
    if not able.images:
        lost |= {"image_texels": 0, "image_windows": False, "prefers_images": False}
    if not able.local_memory:
        lost |= {"local_memory": 0, "max_work_group": 1}
    if not persistent:
        lost["resident"] = False
    if not (persistent and able.host_addresses):
        lost["reaches_host"] = False
    changed = {name: value for name, value in lost.items() if getattr(device, name) != value}
    limited = replace(device, **changed) if changed else device  # type: ignore[arg-type]
    return Target(limited, options, able)
