"""Partition: a part of the model inside an interpreter, working on the interpreter's tensors."""

from __future__ import annotations

import ctypes
from collections import OrderedDict

import numpy as np

from fourfold.delegate.engine import Workshop
from fourfold.delegate.host import Host
from fourfold.delegate.source import Part, Wire
from fourfold.delegate.structs import TYPES, Tensor, read_numbers
from fourfold.errors import DeviceError
from fourfold.session import Session
from fourfold.types import Shape

PLANS = 4  # shapes for which a partition stays ready
NOWHERE = -1  # an address that no tensor has


class Slot:
    """A tensor of the interpreter as an array. The view is kept while the memory stays there."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self._tensor = Tensor()
        self._array = np.empty(0)
        self.forget()

    def forget(self) -> None:
        """Look again next time: the shape may have changed."""
        self._base: int | None = NOWHERE
        self._data: int | None = NOWHERE

    def array(self, base: int) -> np.ndarray:
        """The tensor's elements; `base` is where the interpreter's tensors begin."""
        if base != self._base:
            self._base, self._data = base, NOWHERE
            place = base + self.wire.number * ctypes.sizeof(Tensor)
            self._tensor = Tensor.from_address(place)
        data = self._tensor.data
        if data != self._data:
            self._array = self._view()
            self._data = data
        return self._array

    def _view(self) -> np.ndarray:
        tensor, shape = self._tensor, read_numbers(self._tensor.dims)
        found = TYPES.get(tensor.type)
        kind = np.dtype(np.uint8) if found is None or not found.has_numpy else found.numpy
        if not tensor.bytes:
            return np.empty(shape, kind)
        if not tensor.data:
            raise DeviceError(
                f"tensor '{self.wire.name}' has no memory",
                "the interpreter has not allocated it",
                "call allocate_tensors() before invoke()",
            )
        memory = (ctypes.c_char * tensor.bytes).from_address(tensor.data)
        return np.frombuffer(memory, kind).reshape(shape)


class Partition:
    """A part of the model at its place in an interpreter, ready for the shapes it has seen."""

    def __init__(self, part: Part, workshop: Workshop) -> None:
        self._part, self._workshop = part, workshop
        self._inputs = [Slot(wire) for wire in part.inputs]
        self._outputs = [Slot(wire) for wire in part.outputs]
        self._sessions: OrderedDict[tuple[Shape, ...], Session] = OrderedDict()
        self._session: Session | None = None

    def open(self, shapes: tuple[Shape, ...] | None = None) -> Session:
        """The session for inputs of these shapes, or of those that the file has."""
        wires = self._part.inputs
        shapes = tuple(wire.shape for wire in wires) if shapes is None else shapes
        if shapes not in self._sessions:
            pairs = zip(wires, shapes, strict=True)
            changed = {wire.name: shape for wire, shape in pairs if shape != wire.shape}
            self._sessions[shapes] = self._workshop.open(self._part.content, changed)
            while len(self._sessions) > PLANS:
                self._sessions.popitem(last=False)[1].close()
        self._sessions.move_to_end(shapes)
        return self._sessions[shapes]

    def prepare(self, host: Host) -> None:
        """Make ready for the shapes that the inputs have now, and give the outputs theirs."""
        if not self._outputs:
            return
        self._session = None
        session = self.open(tuple(host.shape(wire.number) for wire in self._part.inputs))
        for wire, info in zip(self._part.outputs, session.outputs, strict=True):
            if host.shape(wire.number) != info.shape:
                host.resize(wire.number, info.shape)
        for slot in (*self._inputs, *self._outputs):
            slot.forget()
        self._session = session

    def invoke(self, base: int) -> None:
        """From the interpreter's tensors to the interpreter's tensors."""
        if not self._outputs:
            return  # it is about constants, which are part of who reads them
        if self._session is None:
            raise DeviceError(
                "a partition is not ready", "it was not prepared", "call allocate_tensors() first"
            )
        results = self._session.run([slot.array(base) for slot in self._inputs])
        for slot, result in zip(self._outputs, results.values(), strict=True):
            np.copyto(slot.array(base), result, casting="no")

    def close(self) -> None:
        """Free what the device holds for it."""
        self._session = None
        while self._sessions:
            self._sessions.popitem()[1].close()
