"""DelegateKernel: what an interpreter calls instead of its own nodes, on its own tensors."""

from __future__ import annotations

import ctypes
from collections import OrderedDict

import numpy as np

from fourfold.delegate.claimable_graph import BorderTensor, SubsetFile
from fourfold.delegate.host import Host
from fourfold.delegate.session_factory import SessionFactory
from fourfold.delegate.structs import TYPES, TfLiteTensor, read_numbers
from fourfold.errors import DeviceError
from fourfold.session import Session
from fourfold.types import Shape

SESSIONS = 4  # shapes for which a partition stays ready
LARGE = 1 << 16  # bytes of results from which it pays to have them written where they go
NOWHERE = -1  # an address that no tensor has


class TensorView:
    """A tensor of the interpreter as an array. The view is kept while the memory stays there."""

    def __init__(self, border: BorderTensor) -> None:
        self.border = border
        self._tensor = TfLiteTensor()
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
            place = base + self.border.number * ctypes.sizeof(TfLiteTensor)
            self._tensor = TfLiteTensor.from_address(place)
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
                f"tensor '{self.border.name}' has no memory",
                "the interpreter has not allocated it",
                "call allocate_tensors() before invoke()",
            )
        memory = (ctypes.c_char * tensor.bytes).from_address(tensor.data)
        return np.frombuffer(memory, kind).reshape(shape)


class DelegateKernel:
    """A subset of an interpreter's nodes as sessions, one for each of the last shapes."""

    def __init__(self, file: SubsetFile, factory: SessionFactory) -> None:
        self._file, self._factory = file, factory
        self._inputs = [TensorView(border) for border in file.inputs]
        self._outputs = [TensorView(border) for border in file.outputs]
        self._sessions: OrderedDict[tuple[Shape, ...], Session] = OrderedDict()
        self._session: Session | None = None

    def open(self, shapes: tuple[Shape, ...] | None = None) -> Session:
        """The session for inputs of these shapes, or of those that the file has."""
        borders = self._file.inputs
        shapes = tuple(border.shape for border in borders) if shapes is None else shapes
        if shapes not in self._sessions:
            pairs = zip(borders, shapes, strict=True)
            changed = {border.name: shape for border, shape in pairs if shape != border.shape}
            self._sessions[shapes] = self._factory.open(self._file.content, changed)
            while len(self._sessions) > SESSIONS:
                self._sessions.popitem(last=False)[1].close()
        self._sessions.move_to_end(shapes)
        return self._sessions[shapes]

    def prepare(self, host: Host) -> None:
        """Make ready for the shapes that the inputs have now, and give the outputs theirs."""
        if not self._outputs:
            return
        self._session = None
        session = self.open(tuple(host.shape(border.number) for border in self._file.inputs))
        for border, info in zip(self._file.outputs, session.outputs, strict=True):
            if host.shape(border.number) != info.shape:
                host.resize(border.number, info.shape)
        for view in (*self._inputs, *self._outputs):
            view.forget()
        self._session = session

    def invoke(self, base: int) -> None:
        """From the interpreter's tensors to the interpreter's tensors."""
        if not self._outputs:
            return  # it is about constants, which are part of who reads them
        if self._session is None:
            raise DeviceError(
                "a partition is not ready", "it was not prepared", "call allocate_tensors() first"
            )
        arrays = [view.array(base) for view in self._inputs]
        targets = [view.array(base) for view in self._outputs]
        if sum(target.nbytes for target in targets) >= LARGE:
            self._session.run(arrays, out=targets)
            return
        for target, result in zip(targets, self._session.run(arrays).values(), strict=True):
            np.copyto(target, result, casting="no")

    def close(self) -> None:
        """Free what the device holds for it."""
        self._session = None
        while self._sessions:
            self._sessions.popitem()[1].close()
