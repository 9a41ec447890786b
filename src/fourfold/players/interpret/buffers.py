"""The buffers of a plan as checked memory, bound to the pointers of kernels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fourfold.errors import DeviceError
from fourfold.plan import Buffer, Plan
from fourfold.plan.host_protocol import pieces
from fourfold.players.interpret.memory import CheckedMemory
from fourfold.players.interpret.pointer import GLOBAL, BoundPointer, element_type
from fourfold.players.interpret.schedule import ScheduledKernel


class Buffers:
    """All buffers of a plan."""

    def __init__(self, plan: Plan, schedule: Sequence[ScheduledKernel]) -> None:
        self.plan = plan
        cells = _cells(plan, schedule)
        self.memories = [
            CheckedMemory(one.bytes, size) for one, size in zip(plan.buffers, cells, strict=True)
        ]
        self._first_pieces = _first_pieces(plan)
        for buffer, memory in self._all():
            if buffer.kind == "constants":
                memory.fill(plan.constants_in(buffer))
        self.reset()

    def forget(self) -> None:
        """Drop the access history: everything done so far is visible to all."""
        for memory in self.memories:
            memory.forget()

    def begin(self) -> None:
        """Start a new run: mark arena and outputs as unwritten."""
        inputs = {port.buffer for port in self.plan.inputs}
        for number, (buffer, memory) in enumerate(self._all()):
            if buffer.kind in ("arena", "output", "host") and number not in inputs:
                memory.flags[: memory.size] = 0
                memory.complete = False

    def put(self, arrays: Sequence[np.ndarray]) -> None:
        """Copy the inputs."""
        for port, array in zip(self.plan.inputs, arrays, strict=True):
            self.memories[port.buffer].fill(np.ascontiguousarray(array))

    def take(self) -> list[np.ndarray]:
        """Return the outputs; raises an error if one was not written."""
        outputs = []
        for port in self.plan.outputs:
            memory, dtype = self.memories[port.buffer], port.type.dtype.numpy
            missing = memory.first_missing(port.type.bytes)
            if missing is not None:
                what = f"output '{port.name}' is not written by any kernel"
                why = f"element {missing // dtype.itemsize} of {port.type.elements} is missing"
                raise DeviceError(what, why, "check the kernel that should write it")
            elements = memory.elements(dtype)[: port.type.elements]
            outputs.append(elements.reshape(port.type.shape).copy())
        return outputs

    def reset(self) -> None:
        """Set variables to their initial values."""
        for buffer, memory in self._of_kind("variable"):
            memory.fill(self.plan.start_of(buffer))

    def poison(self) -> None:
        """Fill arena and outputs with NaN."""
        outputs = {port.buffer for port in self.plan.outputs}
        for number, (buffer, memory) in enumerate(self._all()):
            if buffer.kind in ("arena", "output") or (buffer.kind == "host" and number in outputs):
                memory.blank()

    def saved(self) -> list[np.ndarray]:
        """Return copies of the variables."""
        return [memory.bytes[: memory.size].copy() for _, memory in self._of_kind("variable")]

    def restore(self, saved: Sequence[np.ndarray]) -> None:
        for content, (_, memory) in zip(saved, self._of_kind("variable"), strict=True):
            memory.fill(content)

    def _all(self) -> list[tuple[Buffer, CheckedMemory]]:
        return list(zip(self.plan.buffers, self.memories, strict=True))

    def _of_kind(self, kind: str) -> list[tuple[Buffer, CheckedMemory]]:
        return [(buffer, memory) for buffer, memory in self._all() if buffer.kind == kind]

    def bind(self, item: ScheduledKernel, number: int, tracked: frozenset[int]) -> BoundPointer:
        """Bind a pointer of a kernel; `tracked` buffers may be written by others meanwhile."""
        pointer, use = item.kernel.kernel.buffers[number].pointer, item.uses[number]
        memory, dtype = self.memories[use.buffer], element_type(pointer.dtype)
        extent = memory.bytes.nbytes // dtype.itemsize - use.offset
        if use.image is not None:
            extent = use.image.elements
        elif use.elements is not None:
            extent = min(extent, use.elements)
        return BoundPointer(
            pointer.name,
            memory,
            dtype,
            use.offset,
            extent,
            GLOBAL,
            tracked=use.buffer in tracked,
            constant=self.plan.buffers[use.buffer].kind == "constants",
            first_piece=self._first_pieces.get(use.buffer),
        )


def _cells(plan: Plan, schedule: Sequence[ScheduledKernel]) -> list[int]:
    """Return the size in bytes of the smallest element that kernels access in each buffer."""
    sizes = [8] * len(plan.buffers)
    for item in schedule:
        for argument, use in zip(item.kernel.kernel.buffers, item.uses, strict=True):
            size = element_type(argument.pointer.dtype).itemsize
            sizes[use.buffer] = min(sizes[use.buffer], size)
    return sizes


def _first_pieces(plan: Plan) -> dict[int, int]:
    """Return how many pieces of other inputs precede each input in host memory."""
    counts, before = {}, 0
    for port in plan.inputs:
        buffer = plan.buffers[port.buffer]
        if buffer.kind == "host":
            counts[port.buffer] = before
            before += pieces(buffer.bytes)
    return counts
