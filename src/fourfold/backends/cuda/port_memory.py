"""Memory of the inputs and outputs of one run, on the host and on the device, and uploads."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress

import numpy as np

from fourfold.backends.chunked_copy import THREAD_CHUNK, THREADED_COPY_BYTES, ChunkedCopy, copied
from fourfold.backends.cleanup import cleanup_on_error
from fourfold.backends.cuda import binding as cu
from fourfold.backends.cuda.replay import Copy, Route
from fourfold.backends.port_buffers import port_buffers
from fourfold.backends.protocol import Outputs
from fourfold.plan import HOST_KINDS, Plan, Port, padded


class PinnedMemory:
    """Host memory that the device accesses directly by the same address. It lives as long as this
    object or an array of it.
    """

    def __init__(self, context: cu.Context, size: int) -> None:
        self._context, self._buffer = context, cu.HostBuffer(size)
        self.address, self.size = self._buffer.address, size
        where = (self.address, False)
        self.__array_interface__ = {"shape": (size,), "typestr": "|u1", "data": where, "version": 3}

    def view(self, port: Port) -> np.ndarray:
        """Return its beginning as the array of a port."""
        flat: np.ndarray = np.asarray(self)[: port.type.bytes].view(port.type.dtype.numpy)
        return flat.reshape(port.type.shape)

    def __del__(self) -> None:
        if hasattr(self, "_buffer"):
            with suppress(cu.Error), self._context:  # the process may be exiting
                self._buffer.release()


class PortMemory:
    """Pinned memory for every port of a plan, and device memory next to it.

    Kernels access host buffers directly in pinned memory. Such inputs can also be `staged`: copied
    to the device before the kernel starts, while other runs execute. Variables of the model stay in
    place and are copied from and to.
    """

    def __init__(
        self, context: cu.Context, plan: Plan, shared: Mapping[int, int], staged: bool
    ) -> None:
        """`shared` has the addresses of buffers that are the same in all runs, which may include
        ports.
        """
        self.plan, self._staged = plan, staged
        self._pinned: dict[int, PinnedMemory] = {}
        self._device: list[cu.DeviceBuffer] = []
        self.addresses: dict[int, int] = {}  # addresses of the buffers of this run, for kernels
        self._copied: dict[int, int] = {}  # device memory next to pinned memory
        with cleanup_on_error(self.release):
            self._allocate(context, shared)
        # Views of the pinned memory.
        self.inputs = tuple(self._pinned[port.buffer].view(port) for port in plan.inputs)
        self.outputs = tuple(self._pinned[port.buffer].view(port) for port in plan.outputs)

    def _allocate(self, context: cu.Context, shared: Mapping[int, int]) -> None:
        own, inputs = port_buffers(self.plan), {port.buffer for port in self.plan.inputs}
        for number, buffer in enumerate(self.plan.buffers):
            if buffer.kind == "host_protocol":
                self._pinned[number] = PinnedMemory(context, padded(buffer.bytes))
                self.addresses[number] = self._pinned[number].address
        for port in (*self.plan.inputs, *self.plan.outputs):
            number, size = port.buffer, padded(port.type.bytes)
            if number in self._pinned:
                continue
            self._pinned[number] = PinnedMemory(context, size)
            fetched = self.is_host(port) and not (self._staged and number in inputs)
            if number not in own:
                self._copied[number] = shared[number]
            elif fetched:
                self.addresses[number] = self._pinned[number].address
            else:
                self._device.append(cu.DeviceBuffer(size))
                self.addresses[number] = self._copied[number] = self._device[-1].address

    def is_host(self, port: Port) -> bool:
        """Return True if kernels can access a port in host memory."""
        return self.plan.buffers[port.buffer].kind in HOST_KINDS

    def waited_for(self) -> list[int]:
        """Return the numbers of inputs that kernels wait for, if the plan has a host protocol."""
        numbers = range(len(self.plan.inputs)) if self.flags() is not None else ()
        return [number for number in numbers if self.is_host(self.plan.inputs[number])]

    def flags(self) -> np.ndarray | None:
        """Return the bytes of the host protocol's flags; None if the plan has none."""
        kinds = [buffer.kind for buffer in self.plan.buffers]
        if "host_protocol" not in kinds:
            return None
        number = kinds.index("host_protocol")
        return np.asarray(self._pinned[number])[: self.plan.buffers[number].bytes]

    def address(self, port: Port) -> int:
        """Return the device address of a port."""
        return self._copied.get(port.buffer) or self.addresses[port.buffer]

    def copies_in(self, ports: Sequence[Port]) -> tuple[Copy, ...]:
        """Return the copies of inputs from pinned memory to the device."""
        copied_ports = [port for port in ports if port.buffer in self._copied and port.type.bytes]
        return tuple(
            Copy(self._copied[port.buffer], self._pinned[port.buffer].address, port.type.bytes)
            for port in copied_ports
        )

    def copies_out(self, ports: Sequence[Port]) -> tuple[Copy, ...]:
        """Return the copies of outputs from the device to pinned memory."""
        return tuple(Copy(one.source, one.target, one.size) for one in self.copies_in(ports))

    def large_copies(self) -> dict[int, Copy]:
        """Return the copies of large inputs by number; their upload overlaps the copy to pinned
        memory.
        """
        large = [
            (n, port)
            for n, port in enumerate(self.plan.inputs)
            if port.type.bytes >= THREADED_COPY_BYTES
        ]
        return {number: copy for number, port in large for copy in self.copies_in([port])}

    def route(self, apart: Collection[Copy] = ()) -> Route:
        """Return the route of a run with host arrays; copies in `apart` are made separately."""
        before = tuple(one for one in self.copies_in(self.plan.inputs) if one not in apart)
        return Route(tuple(self.addresses.items()), before, self.copies_out(self.plan.outputs))

    def own_copies(self) -> tuple[Route, tuple[Copy, ...], tuple[Copy, ...]]:
        """Return the route without the copies that may overlap other runs, because no other run
        uses their memory, and these uploads and downloads.
        """
        own = {self._copied[number] for number in self._copied if number in self.addresses}
        route = self.route()
        before = tuple(one for one in route.before if one.target not in own)
        after = tuple(one for one in route.after if one.source not in own)
        uploads = tuple(one for one in route.before if one.target in own)
        downloads = tuple(one for one in route.after if one.source in own)
        return Route(route.addresses, before, after), uploads, downloads

    def take(self, into: Sequence[object] | None) -> Outputs:
        """Return the outputs from pinned memory: as new arrays, or copied into the arrays of
        `into`. Entries that are not arrays are returned as they are.
        """
        if into is None:
            return [copied(view) for view in self.outputs]
        pairs = zip(self.outputs, into, strict=True)
        return [copied(view, one) if isinstance(one, np.ndarray) else one for view, one in pairs]

    def poison(self, stream: cu.Stream, word: int) -> None:
        """Fill outputs with a word, where kernels write them."""
        for port in self.plan.outputs:
            if port.buffer in self._copied and port.buffer in self.addresses:
                count = padded(port.type.bytes) // 4
                stream.fill(self._copied[port.buffer], word, count)
            elif port.buffer in self.addresses:
                np.asarray(self._pinned[port.buffer]).view(np.uint32)[:] = word

    def release(self) -> None:
        """Free the device's memory; pinned memory is freed with its last array."""
        device, self._device = self._device, []
        self._pinned, self.inputs, self.outputs = {}, (), ()
        for buffer in device:
            buffer.release()


class EarlyUpload:
    """Uploads one input chunk by chunk, each while the next is copied to pinned memory."""

    def __init__(self, pinned: np.ndarray, copy: Copy) -> None:
        """`copy` is the copy of the complete input from pinned memory."""
        self._copy, self._size = copy, pinned.itemsize
        self._chunks = ChunkedCopy(pinned, THREAD_CHUNK)

    def put(self, given: object, stream: cu.Stream) -> None:
        """Submit the upload to a stream; anything but an array is in pinned memory already."""
        target, source, size = self._copy
        if not isinstance(given, np.ndarray):
            stream.copy(target, source, size)
            return
        for start, stop in self._chunks.copy(given):
            first, last = start * self._size, stop * self._size
            stream.copy(target + first, source + first, last - first)


class Uploads:
    """Uploads of the inputs that kernels do not fetch themselves. `copies` are those of large
    inputs from pinned memory, which a run may leave out.
    """

    def __init__(self, ports: PortMemory) -> None:
        self._inputs, waited_for = ports.inputs, ports.waited_for()
        self._numbers = [n for n in range(len(ports.inputs)) if n not in waited_for]
        large = ports.large_copies()
        self.copies = tuple(large.values())
        self._early = {n: EarlyUpload(ports.inputs[n], copy) for n, copy in large.items()}

    def put(self, arrays: Sequence[object], stream: cu.Stream, early: bool) -> None:
        """Copy the arrays to pinned memory, and with `early` large ones also to the device."""
        for number in self._numbers:
            array = arrays[number]
            if early and number in self._early:
                self._early[number].put(array, stream)
            elif isinstance(array, np.ndarray):
                copied(array, self._inputs[number])

    def release(self) -> None:
        """Release the pinned memory."""
        self._inputs, self._early = (), {}
