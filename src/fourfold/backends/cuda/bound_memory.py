"""Inputs and outputs in device memory of the caller, which kernels access directly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fourfold.backends.cuda import binding as cu
from fourfold.backends.cuda.memory import CudaMemory
from fourfold.backends.cuda.port_memory import PortMemory
from fourfold.backends.cuda.replay import Copy, LaunchBinder, Replay, Route
from fourfold.backends.port_buffers import movable_buffers
from fourfold.backends.protocol import overwrites_input
from fourfold.plan import InputsOnDevice, Plan, Port, padded

VECTOR = 16  # bytes that kernels load at once, at a multiple of this address


class BoundMemory:
    """Finds the route of runs with memory of the caller.

    Data that kernels cannot use directly is copied on the device: memory that is too short, an
    output that overlaps an input, variables of the model. The most recent routes are cached, since
    callers tend to pass the same memory again.
    """

    MAX_REPLAYS = 32  # cached routes

    def __init__(self, plan: Plan, ports: PortMemory, binder: LaunchBinder) -> None:
        self._plan, self._ports, self._binder = plan, ports, binder
        self._movable = movable_buffers(plan)
        # Device copies of ports that are in host memory.
        self._between: dict[int, cu.DeviceBuffer] = {}
        self._replays: dict[object, Replay] = {}

    def find(self, arrays: Sequence[Any], into: Sequence[Any] | None, stream: cu.Stream) -> Replay:
        """Return the run for these inputs and outputs, some of which are `CudaMemory`. `stream` is
        the stream of such runs.
        """
        key = (tuple(map(_trait, arrays)), None if into is None else tuple(map(_trait, into)))
        replay = self._replays.pop(key, None)
        if replay is None:
            if len(self._replays) == self.MAX_REPLAYS:
                stream.finish()  # it may still be running
                self._replays.pop(next(iter(self._replays))).release()
            replay = Replay(self._route(arrays, into), self._binder)
        self._replays[key] = replay
        return replay

    def _route(self, arrays: Sequence[Any], into: Sequence[Any] | None) -> Route:
        addresses = dict(self._ports.addresses)
        before: list[Copy] = []
        after: list[Copy] = []
        sources: list[tuple[Port, CudaMemory]] = []
        variant = self._device_variant(arrays)
        inputs = [port.buffer for port in self._plan.inputs] if variant is None else variant.buffers
        for port, number, given in zip(self._plan.inputs, inputs, arrays, strict=True):
            if not isinstance(given, CudaMemory):
                before += self._ports.copies_in([port])
                continue
            sources.append((port, given))
            if self._fits(port, given):
                addresses[number] = given.address
            else:
                before.append(Copy(self._own(port, addresses), given.address, port.type.bytes))
        targets = [True] * len(self._plan.outputs) if into is None else into
        for port, target in zip(self._plan.outputs, targets, strict=True):
            if not isinstance(target, CudaMemory):
                after += self._ports.copies_out([] if target is None else [port])
            elif self._fits(port, target) and not overwrites_input(port, target, sources):
                addresses[port.buffer] = target.address
            else:
                after.append(Copy(target.address, self._own(port, addresses), port.type.bytes))
        arguments = None if variant is None else variant.arguments
        return Route(
            addresses=tuple(addresses.items()),
            before=_not_empty(before),
            after=_not_empty(after),
            arguments=arguments,
        )

    def _device_variant(self, arrays: Sequence[Any]) -> InputsOnDevice | None:
        """Return the variant that reads nothing from the host, if the plan has one and kernels can
        use all inputs in device memory.
        """
        for port, given in zip(self._plan.inputs, arrays, strict=True):
            if not isinstance(given, CudaMemory) or given.is_pinned or not self._fits(port, given):
                return None
        return self._plan.on_device

    def _fits(self, port: Port, memory: CudaMemory) -> bool:
        """Return True if kernels can access the memory directly.

        Pinned memory is used only by kernels that read from the host anyway: others read it more
        than once.
        """
        if port.buffer not in self._movable or memory.address % VECTOR:
            return False
        if memory.is_pinned and not self._ports.is_host(port):
            return False
        return memory.size >= padded(port.type.bytes)

    def _own(self, port: Port, addresses: dict[int, int]) -> int:
        """Return the address of device memory for a port that is copied; adds it to `addresses`."""
        if port.buffer not in self._movable or not self._ports.is_host(port):
            return self._ports.address(port)
        if port.buffer not in self._between:
            self._between[port.buffer] = cu.DeviceBuffer(padded(port.type.bytes))
        addresses[port.buffer] = self._between[port.buffer].address
        return addresses[port.buffer]

    def release(self) -> None:
        for replay in self._replays.values():
            replay.release()
        for buffer in self._between.values():
            buffer.release()
        self._replays, self._between = {}, {}


def used_by_others(given: Any) -> bool:
    """Return True if other libraries may have submitted work for this to the default stream."""
    return isinstance(given, CudaMemory) and given.used_by_others


def _trait(given: Any) -> object:
    """Return the properties of an input or output that its route depends on."""
    if isinstance(given, CudaMemory):
        return given.address, given.size
    return given is None


def _not_empty(copies: Sequence[Copy]) -> tuple[Copy, ...]:
    return tuple(one for one in copies if one.size)
