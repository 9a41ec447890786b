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
    from fourfold.plan.layout import Piece
    from fourfold.plan.stage_clocks import StageClocks
    from fourfold.support import display
else:
    display = lazy_import("fourfold.support.display")

ARENA, CONSTANTS = 0, 1  # numbers of the two buffers that every plan has
CONSTANT_ALIGNMENT = 64  # bytes; alignment of each constant in the constants
BUFFER_ALIGNMENT = 64  # bytes; uninitialized buffers are padded to a multiple of this
HOST_KINDS = ("host", "host_protocol")  # kinds of buffers that are host memory


class Buffer(NamedTuple):
    """A buffer of device memory, of one of these kinds:

    - 'arena': values between kernels;
    - 'constants': weights. If they exceed the largest allocation of the device, there are several
      such buffers, each from byte `start` of all constants;
    - 'input', 'output': inputs and outputs of the model;
    - 'variable': a variable of the model, which persists between runs. It starts as zeros, or as
      the constants at byte `start`;
    - 'state': the state of a persistent kernel, which starts as zeros and persists between runs;
    - 'host': an input or output in host memory that kernels access by its address;
    - 'host_protocol': flags in host memory with which such kernels and the host synchronize.
    """

    name: str
    kind: str
    bytes: int
    start: int | None = None

    @property
    def allocated(self) -> int:
        """Bytes that a device allocates; buffers that start as a copy are not padded."""
        if self.kind in ("constants", "variable", "state"):
            return self.bytes
        return padded(self.bytes)


def padded(size: int) -> int:
    """Return the allocated size of a buffer: kernels may read slightly past the end, and no buffer
    is empty.
    """
    return max(1, -(-size // BUFFER_ALIGNMENT)) * BUFFER_ALIGNMENT


class BufferUse(NamedTuple):
    """A pointer argument: a buffer number, and an offset in elements.

    `image` is the type of the constants that the kernel reads through an image, as vectors of four:
    f16[72,4]. `elements` is the number of elements after the offset, for players that check bounds;
    it is not stored in files.
    """

    buffer: int
    offset: int
    image: TensorType | None = None
    elements: int | None = None

    @property
    def end_of_image(self) -> int:
        """Number of texels (vectors of four) that an image from the start of the buffer must have;
        0 without an image.
        """
        return 0 if self.image is None else self.offset // 4 + self.image.shape[0]

    def __str__(self) -> str:
        return f"#{self.buffer}+{self.offset}" + (f" as {self.image}" if self.image else "")


Argument = BufferUse | int


class Launch(NamedTuple):
    """A kernel entry point with all of its arguments, and the node it came from."""

    entry: str
    arguments: tuple[Argument, ...]
    grid: tuple[int, ...]
    local: tuple[int, ...]
    title: str
    node: str
    stages: int = 1
    local_bytes: int = 0  # dynamic local memory, in addition to what the kernel declares

    def __str__(self) -> str:
        arguments = ", ".join(map(str, self.arguments))
        grid = "x".join(map(str, self.grid))
        local = "x".join(map(str, self.local))
        return f"{self.entry}({arguments}) over {grid} in {local}  # {self.node}"


class Program(NamedTuple):
    """Kernel source and its build options."""

    text: str
    options: str


class Port(NamedTuple):
    """An input or output of the model: its name, its type, and its buffer.

    `limits` are the smallest and the largest valid number of an integer input: kernels use the
    numbers as indices, or compute with fewer bits than the input has. Players refuse others.
    """

    name: str
    type: TensorType
    buffer: int
    quantization: Quantization | None = None
    limits: tuple[int, int] | None = None


class InputsOnDevice(NamedTuple):
    """Another form of a plan's only launch, which usually fetches inputs from host memory, for
    inputs that are all in device memory: its `arguments`, and the buffer that kernels read each
    input from.
    """

    arguments: tuple[Argument, ...]
    buffers: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Plan:
    """Everything that a player needs to run a model on one kind of device.

    `flops` is the approximate number of additions and multiplications of a run; None if unknown.
    `on_device` is a faster launch for inputs in device memory, if the plan has one. `clocks` says
    where stages record their times in a plan for profiling; it is not stored in files. `pieces` are
    the single constants of a plan that was just compiled, with their layouts; empty if the plan was
    read from a file.
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
    pieces: tuple[Piece, ...] = ()

    @property
    def stages(self) -> int:
        """Number of kernels that run in sequence: launches, or stages of the only launch."""
        return sum(launch.stages for launch in self.launches)

    @property
    def has_variables(self) -> bool:
        """True if the results of a run depend on earlier runs."""
        return any(buffer.kind == "variable" for buffer in self.buffers)

    def start_of(self, buffer: Buffer) -> np.ndarray:
        """Return the initial bytes of a variable or state."""
        if buffer.start is None:
            return np.zeros(buffer.bytes, np.uint8)
        return self.constants[buffer.start : buffer.start + buffer.bytes]

    def constants_in(self, buffer: Buffer) -> np.ndarray:
        """Return the bytes of a buffer of constants: all constants, or its part of them."""
        start = buffer.start or 0
        return self.constants[start : start + buffer.bytes]

    def bytes(self, kind: str) -> int:
        """Return the size of all buffers of a kind."""
        return sum(buffer.bytes for buffer in self.buffers if buffer.kind == kind)

    @property
    def device_bytes(self) -> int:
        """Device memory that all buffers need."""
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
        return str(display.visible("\n".join(self.lines())))

    def __repr__(self) -> str:
        """Return a summary; `print` shows the whole plan, which may be long."""
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
