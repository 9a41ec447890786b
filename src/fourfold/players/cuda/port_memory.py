"""The memory of what goes in and out of one run: what the host has of it, and what kernels have."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from fourfold.plan import HOST_KINDS, Plan, Port, padded
from fourfold.players.chunked_copy import LARGE, copied
from fourfold.players.cleanup import cleanup_on_error
from fourfold.players.cuda import binding as cu
from fourfold.players.cuda.pinned_memory import PinnedMemory
from fourfold.players.cuda.replay import Copy, Route
from fourfold.players.port_buffers import port_buffers
from fourfold.players.protocol import Outputs


class PortMemory:
    """Pinned memory for every port of a plan, and memory of the device beside it.

    Host buffers are that memory themselves: kernels reach them by their addresses. Inputs of that
    kind can be `staged`, too: copied to the device before the kernel begins, while others run.
    Variables of the model are where they are, and copied to and fro.
    """

    def __init__(
        self, context: cu.Context, plan: Plan, shared: Mapping[int, int], staged: bool
    ) -> None:
        """`shared` has the addresses of buffers that are the same in all runs: ports may be there,
        too.
        """
        self.plan, self._staged = plan, staged
        self._pinned: dict[int, PinnedMemory] = {}
        self._device: list[cu.DeviceBuffer] = []
        self.places: dict[int, int] = {}  # where kernels find the buffers that runs have
        self._copied: dict[int, int] = {}  # the device's memory beside pinned memory
        with cleanup_on_error(self.release):
            self._allocate(context, shared)
        # What the host has of them.
        self.inputs = tuple(self._pinned[port.buffer].view(port) for port in plan.inputs)
        self.outputs = tuple(self._pinned[port.buffer].view(port) for port in plan.outputs)

    def _allocate(self, context: cu.Context, shared: Mapping[int, int]) -> None:
        own, inputs = port_buffers(self.plan), {port.buffer for port in self.plan.inputs}
        for number, buffer in enumerate(self.plan.buffers):
            if buffer.kind == "host_protocol":
                self._pinned[number] = PinnedMemory(context, padded(buffer.bytes))
                self.places[number] = self._pinned[number].address
        for port in (*self.plan.inputs, *self.plan.outputs):
            number, size = port.buffer, padded(port.type.bytes)
            if number in self._pinned:
                continue
            self._pinned[number] = PinnedMemory(context, size)
            fetched = self.is_host(port) and not (self._staged and number in inputs)
            if number not in own:
                self._copied[number] = shared[number]
            elif fetched:
                self.places[number] = self._pinned[number].address
            else:
                self._device.append(cu.DeviceBuffer(size))
                self.places[number] = self._copied[number] = self._device[-1].address

    def is_host(self, port: Port) -> bool:
        """Whether kernels could reach a port in the host's memory."""
        return self.plan.buffers[port.buffer].kind in HOST_KINDS

    def waited_for(self) -> list[int]:
        """The numbers of inputs that kernels wait for, where they speak with the host."""
        numbers = range(len(self.plan.inputs)) if self.flags() is not None else ()
        return [number for number in numbers if self.is_host(self.plan.inputs[number])]

    def flags(self) -> np.ndarray | None:
        """The bytes by which kernels and the host speak, where the plan has such kernels."""
        kinds = [buffer.kind for buffer in self.plan.buffers]
        if "host_protocol" not in kinds:
            return None
        number = kinds.index("host_protocol")
        return np.asarray(self._pinned[number])[: self.plan.buffers[number].bytes]

    def address(self, port: Port) -> int:
        """Where kernels find a port."""
        return self._copied.get(port.buffer) or self.places[port.buffer]

    def copies_in(self, ports: Sequence[Port]) -> tuple[Copy, ...]:
        """What brings inputs from pinned memory to the device."""
        found = [port for port in ports if port.buffer in self._copied and port.type.bytes]
        return tuple(
            Copy(self._copied[port.buffer], self._pinned[port.buffer].address, port.type.bytes)
            for port in found
        )

    def copies_out(self, ports: Sequence[Port]) -> tuple[Copy, ...]:
        """What brings outputs from the device into pinned memory."""
        return tuple(Copy(one.source, one.target, one.size) for one in self.copies_in(ports))

    def large_copies(self) -> dict[int, Copy]:
        """What brings those inputs to the device, by their numbers, of which a part had better be
        on its way while the rest is copied to pinned memory.
        """
        some = [(n, port) for n, port in enumerate(self.plan.inputs) if port.type.bytes >= LARGE]
        return {number: copy for number, port in some for copy in self.copies_in([port])}

    def route(self, apart: Collection[Copy] = ()) -> Route:
        """The run of a caller whose arrays are the host's, all inputs and outputs; some copies may
        be made apart from it.
        """
        before = tuple(one for one in self.copies_in(self.plan.inputs) if one not in apart)
        return Route(tuple(self.places.items()), before, self.copies_out(self.plan.outputs))

    def own_copies(self) -> tuple[Route, tuple[Copy, ...], tuple[Copy, ...]]:
        """The same with those copies apart that may be made while other runs are played: to and
        from memory that no other run has.
        """
        own = {self._copied[number] for number in self._copied if number in self.places}
        route = self.route()
        before = tuple(one for one in route.before if one.target not in own)
        after = tuple(one for one in route.after if one.source not in own)
        uploads = tuple(one for one in route.before if one.target in own)
        downloads = tuple(one for one in route.after if one.source in own)
        return Route(route.places, before, after), uploads, downloads

    def take(self, into: Sequence[object] | None) -> Outputs:
        """The outputs out of pinned memory: as new arrays, or where they are wanted; what is no
        array stays as it is.
        """
        if into is None:
            return [copied(view) for view in self.outputs]
        pairs = zip(self.outputs, into, strict=True)
        return [copied(view, one) if isinstance(one, np.ndarray) else one for view, one in pairs]

    def poison(self, stream: cu.Stream, word: int) -> None:
        """Fill outputs with a word, wherever kernels write them."""
        for port in self.plan.outputs:
            if port.buffer in self._copied and port.buffer in self.places:
                count = padded(port.type.bytes) // 4
                stream.fill(self._copied[port.buffer], word, count)
            elif port.buffer in self.places:
                np.asarray(self._pinned[port.buffer]).view(np.uint32)[:] = word

    def release(self) -> None:
        """Give the device's memory back; pinned memory goes with the last array of it."""
        device, self._device = self._device, []
        self._pinned, self.inputs, self.outputs = {}, (), ()
        for buffer in device:
            buffer.release()
