"""The memory of a plan on a CUDA device, and the way of arrays in and out of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fourfold.plan import Plan, Port
from fourfold.players.chunked_copy import copied
from fourfold.players.cuda import binding as cu
from fourfold.players.host_handshake import HostHandshake
from fourfold.players.protocol import Into, Outputs

HOST = ("host", "host_protocol")  # kinds of buffers that are the host's memory
ALIGNED = 64  # bytes that the size of a buffer is a multiple of
POISON = 0x7FC07FC0  # NaN as a float, and as two halves


class Buffers:
    """Every buffer of a plan, and pinned memory of the host for what goes in and out.

    Host buffers are that memory themselves: kernels reach them by their addresses. For all other
    ports the copies are part of what is launched.
    """

    def __init__(self, plan: Plan, stream: cu.Stream) -> None:
        self.plan, self._stream = plan, stream
        self._every: list[cu.DeviceBuffer | cu.HostBuffer] = []
        self._staging: dict[int, cu.HostBuffer] = {}
        try:
            self._allocate()
        except BaseException:
            self.release()
            raise

    def _allocate(self) -> None:
        for buffer in self.plan.buffers:
            size = padded(buffer.bytes)
            kind = cu.HostBuffer if buffer.kind in HOST else cu.DeviceBuffer
            self._every.append(kind(size))
        for port in (*self.plan.inputs, *self.plan.outputs):
            if port.buffer not in self._staging and not self._is_host(port.buffer):
                self._staging[port.buffer] = cu.HostBuffer(padded(port.type.bytes))
        for number, buffer in enumerate(self.plan.buffers):
            if buffer.kind == "constants" and self.plan.constants.nbytes:
                self._stream.write(self.address(number), self.plan.constants_in(buffer))
            elif buffer.kind == "state":
                self._stream.fill(self.address(number), 0, padded(buffer.bytes) // 4)
        self.reset()

    def reset(self) -> None:
        """Set the model's variables back to what they began with."""
        for number, buffer in enumerate(self.plan.buffers):
            if buffer.kind == "variable":
                self._stream.write(self.address(number), self.plan.start_of(buffer))
        self._stream.finish()

    def variables(self) -> list[tuple[int, int]]:
        """The address and the size of every variable."""
        pairs = zip(self._every, self.plan.buffers, strict=True)
        return [(memory.address, one.bytes) for memory, one in pairs if one.kind == "variable"]

    def address(self, number: int) -> int:
        return self._every[number].address

    def _is_host(self, number: int) -> bool:
        return self.plan.buffers[number].kind in HOST

    def view(self, port: Port) -> np.ndarray:
        """The host's memory of an input or an output."""
        own = self._staging.get(port.buffer) or self._every[port.buffer]
        assert isinstance(own, cu.HostBuffer)
        flat: np.ndarray = own.bytes[: port.type.bytes].view(port.type.dtype.numpy)
        return flat.reshape(port.type.shape)

    def handshake(self) -> HostHandshake | None:
        """How the host and a kernel that waits for it speak, where the plan has such a kernel."""
        kinds = [buffer.kind for buffer in self.plan.buffers]
        if "host_protocol" not in kinds:
            return None
        number = kinds.index("host_protocol")
        memory = self._every[number]
        assert isinstance(memory, cu.HostBuffer)
        inputs = [self.view(port) for port in self.host_inputs]
        return HostHandshake(self._stream, memory.bytes[: self.plan.buffers[number].bytes], inputs)

    @property
    def host_inputs(self) -> list[Port]:
        return [port for port in self.plan.inputs if self._is_host(port.buffer)]

    def put_in(self) -> None:
        """Copy what lies in pinned memory to the device."""
        for port in self.plan.inputs:
            if not self._is_host(port.buffer) and port.type.bytes:
                self._stream.write(self.address(port.buffer), self.view(port))

    def put_out(self) -> None:
        """Copy results from the device into pinned memory."""
        for port in self.plan.outputs:
            if not self._is_host(port.buffer) and port.type.bytes:
                self._stream.read(self.address(port.buffer), self.view(port))

    def stage(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Copy arrays into pinned memory, from where they are brought to the device; gives those
        for which kernels ask the host.
        """
        asked = []
        for port, array in zip(self.plan.inputs, arrays, strict=True):
            if self._is_host(port.buffer):
                asked.append(array)
            else:
                copied(array, self.view(port))
        return asked

    @property
    def copies_outputs(self) -> bool:
        """Whether an output is copied behind the kernels."""
        return any(port.buffer in self._staging for port in self.plan.outputs)

    def take(self, into: Into | None) -> Outputs:
        """The outputs out of pinned memory: as new arrays, or where they are wanted."""
        views = [self.view(port) for port in self.plan.outputs]
        if into is None:
            return [copied(view) for view in views]
        pairs = zip(views, into, strict=True)
        return [None if target is None else copied(view, target) for view, target in pairs]

    def poison(self) -> None:
        """Fill arena and outputs with NaN."""
        outputs = {port.buffer for port in self.plan.outputs}
        for number, buffer in enumerate(self.plan.buffers):
            memory = self._every[number]
            if isinstance(memory, cu.HostBuffer):
                if buffer.kind == "host" and number in outputs:
                    memory.bytes.view(np.uint32)[:] = POISON
            elif buffer.kind in ("arena", "output"):
                self._stream.fill(memory.address, POISON, memory.size // 4)
        self._stream.finish()

    def release(self) -> None:
        for memory in (*self._every, *self._staging.values()):
            memory.release()
        self._every, self._staging = [], {}


def padded(size: int) -> int:
    return max(1, -(-size // ALIGNED)) * ALIGNED
