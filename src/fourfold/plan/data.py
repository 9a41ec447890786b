"""Plan: a compiled model as plain data. It holds no code and no reference to anything upstream."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fourfold.plan.requirements import Requirements
from fourfold.support.lazy import lazy_import
from fourfold.types import Quantization, TensorType

if TYPE_CHECKING:
    from fourfold.plan.stage_clocks import StageClocks
    from fourfold.support import display
else:
    display = lazy_import("fourfold.support.display")

ARENA, CONSTANTS = 0, 1  # the numbers of two buffers that every plan has
CONSTANT_ALIGNMENT = 64  # bytes at which each constant begins in the block of all of them
BUFFER_ALIGNMENT = 64  # bytes that the size of a buffer which begins empty is a multiple of
HOST_KINDS = ("host", "host_protocol")  # kinds of buffers that are host memory


class Buffer(NamedTuple):
    """A piece of device memory, of one of these kinds.

    'arena' holds values between kernels, 'constants' weights, 'input' and 'output' what goes in and
    out. 'variable' and 'state' begin as zeros and are left alone between runs: variables are the
    model's, the state is that of a persistent kernel. A variable that begins with other numbers has
    them at byte `start` of the constants. Where all constants are more than a device allocates at
    once, there are several buffers of them, each from byte `start` on. 'host' is an input or output
    in the host's memory that kernels reach by its address, 'host_protocol' the flags there by which
    such kernels and the host tell each other how far they are.
    """

    name: str
    kind: str
    bytes: int
    start: int | None = None

    @property
    def allocated(self) -> int:
        """The bytes that a device sets aside for it; those that begin as a copy are as long."""
        if self.kind in ("constants", "variable", "state"):
            return self.bytes
        return padded(self.bytes)


def padded(size: int) -> int:
    """The bytes of a buffer for so many: kernels may read a little further, and none is empty."""
    return max(1, -(-size // BUFFER_ALIGNMENT)) * BUFFER_ALIGNMENT


class BufferUse(NamedTuple):
    """A pointer argument: a buffer by its number, and the elements to skip in it.

    `image` is what the kernel reads from there by an image, as so many vectors of four: f16[72,4].
    `elements` is how many there are from there on, for players that check it; no file holds it.
    """

    buffer: int
    offset: int
    image: TensorType | None = None
    elements: int | None = None

    @property
    def end_of_image(self) -> int:
        """How many vectors of four an image from the start of the buffer must have; 0: none."""
        return 0 if self.image is None else self.offset // 4 + self.image.shape[0]

    def __str__(self) -> str:
        return f"#{self.buffer}+{self.offset}" + (f" as {self.image}" if self.image else "")


Argument = BufferUse | int


class Launch(NamedTuple):
    """One entry point with all of its arguments, and the node it came from."""

    entry: str
    arguments: tuple[Argument, ...]
    grid: tuple[int, ...]
    local: tuple[int, ...]
    title: str
    node: str
    stages: int = 1
    local_bytes: int = 0  # of local memory that a launch must ask for; kernels declare all other

    def __str__(self) -> str:
        arguments = ", ".join(map(str, self.arguments))
        grid = "x".join(map(str, self.grid))
        local = "x".join(map(str, self.local))
        return f"{self.entry}({arguments}) over {grid} in {local}  # {self.node}"


class Program(NamedTuple):
    """Kernel text and the options it is built with."""

    text: str
    options: str


class Port(NamedTuple):
    """An input or output of the model: its own name and type, and the buffer that carries it."""

    name: str
    type: TensorType
    buffer: int
    quantization: Quantization | None = None


class InputsOnDevice(NamedTuple):
    """How the only launch of a plan, which fetches inputs from the host's memory, runs without that
    where all of them are in the device's: its `arguments` then, and the buffer that kernels read
    each input from.
    """

    arguments: tuple[Argument, ...]
    buffers: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Plan:
    """All that a player needs to run a model on one kind of device.

    `flops` is about how many additions and multiplications a run takes; None where nobody counted.
    `on_device` is a shorter way for callers whose inputs are there, where the plan has one.
    `clocks` says where stages note their times, in a plan that is made for profiling; no file holds
    it.
    """

    name: str
    program: Program
    buffers: tuple[Buffer, ...]
    launches: tuple[Launch, ...]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    constants: np.ndarray
    precision: str
    requirements: Requirements = field(default_factory=Requirements)
    flops: float | None = None
    on_device: InputsOnDevice | None = None
    clocks: StageClocks | None = None

    @property
    def stages(self) -> int:
        """How many kernels run, one after the other: launches, or the stages of the only one."""
        return sum(launch.stages for launch in self.launches)

    @property
    def has_variables(self) -> bool:
        """Whether the results of a run depend on earlier runs."""
        return any(buffer.kind == "variable" for buffer in self.buffers)

    def start_of(self, buffer: Buffer) -> np.ndarray:
        """The bytes that a variable or a state begins with."""
        if buffer.start is None:
            return np.zeros(buffer.bytes, np.uint8)
        return self.constants[buffer.start : buffer.start + buffer.bytes]

    def constants_in(self, buffer: Buffer) -> np.ndarray:
        """The bytes that a buffer of constants holds: all of them, or its part."""
        start = buffer.start or 0
        return self.constants[start : start + buffer.bytes]

    def bytes(self, kind: str) -> int:
        """The size of all buffers of a kind."""
        return sum(buffer.bytes for buffer in self.buffers if buffer.kind == kind)

    @property
    def device_bytes(self) -> int:
        """What a player sets aside on the device, all buffers together."""
        return sum(one.allocated for one in self.buffers if one.kind not in HOST_KINDS)

    def lines(self) -> Iterator[str]:
        yield f"requires {self.requirements}"
        for number, buffer in enumerate(self.buffers):
            yield f"buffer #{number} {buffer.kind} {buffer.name}: {buffer.bytes} bytes"
        for port in self.inputs:
            yield f"input {port.name}: {port.type} in #{port.buffer}"
        for launch in self.launches:
            yield str(launch)
        for port in self.outputs:
            yield f"output {port.name}: {port.type} in #{port.buffer}"

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def __repr__(self) -> str:
        """`print` shows all of it, which may be very long."""
        return f"<Plan {self.name!r}: {self._summary()}>"

    def _summary(self) -> str:
        launches = display.count_text(len(self.launches), "launch", "launches")
        memory = display.size_text(self.device_bytes)
        kernels = display.count_text(self.stages, "kernel")
        return f"{kernels} in {launches}, {self.precision}, {memory} on the device"

    def _repr_html_(self) -> str:
        rows = [(one.kind, one.name, display.size_text(one.bytes)) for one in self.buffers]
        for kind, ports in (("input", self.inputs), ("output", self.outputs)):
            rows += [(kind, one.name, str(one.type)) for one in ports]
        title = f"Plan {self.name}: {self._summary()}"
        return str(display.html_table(title, ("", "name", ">size or type"), rows))
