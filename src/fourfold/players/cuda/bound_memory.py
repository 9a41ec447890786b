"""Inputs and outputs in memory of the device that a caller has: kernels use it where it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fourfold.plan import InputsOnDevice, Plan, Port, padded
from fourfold.players.cuda import binding as cu
from fourfold.players.cuda.memory import CudaMemory
from fourfold.players.cuda.port_memory import PortMemory
from fourfold.players.cuda.replay import Copy, LaunchBinder, Replay, Route
from fourfold.players.port_buffers import movable_buffers
from fourfold.players.protocol import is_read

VECTOR = 16  # bytes that kernels read at once, at an address that is a multiple of it


class BoundMemory:
    """Finds the route of runs with a caller's memory. What kernels cannot use where it is is copied
    on the device: memory that ends too early, an output where an input is, variables of the model.
    The last few of such runs are kept ready: callers come with the same memory again and again.
    """

    MOST = 32  # that are kept

    def __init__(self, plan: Plan, ports: PortMemory, binder: LaunchBinder) -> None:
        self._plan, self._ports, self._binder = plan, ports, binder
        self._movable = movable_buffers(plan)
        self._between: dict[int, cu.DeviceBuffer] = {}  # of ports whose own memory is the host's
        self._kept: dict[object, Replay] = {}

    def find(self, arrays: Sequence[Any], into: Sequence[Any] | None, stream: cu.Stream) -> Replay:
        """The run with these inputs and outputs, of which some are `CudaMemory`; `stream` is where
        such runs are played.
        """
        key = (tuple(map(_trait, arrays)), None if into is None else tuple(map(_trait, into)))
        found = self._kept.pop(key, None)
        if found is None:
            if len(self._kept) == self.MOST:
                stream.finish()  # it may still be played
                self._kept.pop(next(iter(self._kept))).release()
            found = Replay(self._route(arrays, into), self._binder)
        self._kept[key] = found
        return found

    def _route(self, arrays: Sequence[Any], into: Sequence[Any] | None) -> Route:
        places = dict(self._ports.places)
        before: list[Copy] = []
        after: list[Copy] = []
        sources: list[tuple[Port, CudaMemory]] = []
        shorter = self._shorter_way(arrays)
        inputs = [port.buffer for port in self._plan.inputs] if shorter is None else shorter.buffers
        for port, number, given in zip(self._plan.inputs, inputs, arrays, strict=True):
            if not isinstance(given, CudaMemory):
                before += self._ports.copies_in([port])
                continue
            sources.append((port, given))
            if self._fits(port, given):
                places[number] = given.address
            else:
                before.append(Copy(self._own(port, places), given.address, port.type.bytes))
        targets = [True] * len(self._plan.outputs) if into is None else into
        for port, target in zip(self._plan.outputs, targets, strict=True):
            if not isinstance(target, CudaMemory):
                after += self._ports.copies_out([] if target is None else [port])
            elif self._fits(port, target) and not is_read(port, target, sources):
                places[port.buffer] = target.address
            else:
                after.append(Copy(target.address, self._own(port, places), port.type.bytes))
        arguments = None if shorter is None else shorter.arguments
        copies = _not_empty(before), _not_empty(after)
        return Route(tuple(places.items()), *copies, arguments)

    def _shorter_way(self, arrays: Sequence[Any]) -> InputsOnDevice | None:
        """The way on which nothing is fetched from the host, if the plan has one: where all inputs
        are in the device's memory, and kernels can use them there.
        """
        for port, given in zip(self._plan.inputs, arrays, strict=True):
            if not isinstance(given, CudaMemory) or given.is_pinned or not self._fits(port, given):
                return None
        return self._plan.on_device

    def _fits(self, port: Port, memory: CudaMemory) -> bool:
        """Whether kernels can use memory where it is. Of pinned memory only those make use that
        would fetch from the host anyway: others read it more than once.
        """
        if port.buffer not in self._movable or memory.address % VECTOR:
            return False
        if memory.is_pinned and not self._ports.is_host(port):
            return False
        return memory.size >= padded(port.type.bytes)

    def _own(self, port: Port, places: dict[int, int]) -> int:
        """Memory of the device for a port that is copied; `places` is told of it."""
        if port.buffer not in self._movable or not self._ports.is_host(port):
            return self._ports.address(port)
        if port.buffer not in self._between:
            self._between[port.buffer] = cu.DeviceBuffer(padded(port.type.bytes))
        places[port.buffer] = self._between[port.buffer].address
        return places[port.buffer]

    def release(self) -> None:
        for replay in self._kept.values():
            replay.release()
        for buffer in self._between.values():
            buffer.release()
        self._kept, self._between = {}, {}


def is_foreign(given: Any) -> bool:
    """Whether others may have put work on this into the default stream."""
    return isinstance(given, CudaMemory) and given.is_foreign


def _trait(given: Any) -> object:
    """All of an input or output that a route depends on."""
    if isinstance(given, CudaMemory):
        return given.address, given.size
    return given is None


def _not_empty(copies: Sequence[Copy]) -> tuple[Copy, ...]:
    return tuple(one for one in copies if one.size)
