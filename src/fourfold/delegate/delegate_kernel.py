"""DelegateKernel: what an interpreter calls instead of its own nodes, on its own tensors."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

import numpy as np

from fourfold.delegate.claimable_graph import BorderTensor, SubsetFile
from fourfold.delegate.host import Host
from fourfold.delegate.session_factory import SessionFactory
from fourfold.delegate.tensor_view import TensorView
from fourfold.errors import DeviceError
from fourfold.runtime.device_array import DeviceArray
from fourfold.runtime.device_memory import MemoryBinding, bind_memory
from fourfold.runtime.tensor_info import TensorInfo
from fourfold.session import Session
from fourfold.types import Shape

SESSIONS = 4  # shapes for which a partition stays ready
LARGE = 1 << 16  # bytes of results from which it pays to have them written where they go


class DelegateKernel:
    """A subset of an interpreter's nodes as sessions, one for each of the last shapes."""

    def __init__(self, file: SubsetFile, factory: SessionFactory) -> None:
        self.file, self._factory = file, factory
        self._inputs = [TensorView(border) for border in file.inputs]
        self._outputs = [TensorView(border) for border in file.outputs]
        self._sessions: OrderedDict[tuple[Shape, ...], Session] = OrderedDict()
        self._session: Session | None = None
        self._keeps = factory.options.allow_buffer_handle_output
        self._bound: Mapping[int, MemoryBinding] = {}
        self._results: dict[int, DeviceArray] | None = None  # None before it has run
        self.context = 0

    def join(self, context: int, bound: Mapping[int, MemoryBinding]) -> None:
        """Be part of an interpreter's graph, in which tensors may be `bound` to memory."""
        self.context, self._bound = context, bound

    def open(self, shapes: tuple[Shape, ...] | None = None) -> Session:
        """The session for inputs of these shapes, or of those that the file has."""
        borders = self.file.inputs
        shapes = tuple(border.shape for border in borders) if shapes is None else shapes
        if shapes not in self._sessions:
            pairs = zip(borders, shapes, strict=True)
            changed = {border.name: shape for border, shape in pairs if shape != border.shape}
            self._sessions[shapes] = self._factory.open(self.file.content, changed)
            while len(self._sessions) > SESSIONS:
                self._sessions.popitem(last=False)[1].close()
        self._sessions.move_to_end(shapes)
        return self._sessions[shapes]

    def prepare(self, host: Host) -> None:
        """Make ready for the shapes that the inputs have now, and give the outputs theirs."""
        if not self._outputs:
            return
        self._session, self._results = None, None
        session = self.open(tuple(host.shape(border.number) for border in self.file.inputs))
        for border, info in zip(self.file.outputs, session.outputs, strict=True):
            if host.shape(border.number) != info.shape:
                host.resize(border.number, info.shape)
        for view in (*self._inputs, *self._outputs):
            view.forget()
        self._session = session

    @property
    def is_ready(self) -> bool:
        return self._session is not None

    def invoke(self, base: int) -> None:
        """Run on the interpreter's tensors, and on those that are in the device's memory."""
        if not self._outputs:
            return  # it is about constants, which are part of who reads them
        if self._session is None:
            raise DeviceError(
                "a partition is not ready", "it was not prepared", "call allocate_tensors() first"
            )
        self._results = None
        if self._keeps or self._bound:
            self._results = self._run_on_device(self._session, base)
        else:
            self._run_on_host(self._session, base)
            self._results = {}

    def _run_on_host(self, session: Session, base: int) -> None:
        """Run from the interpreter's tensors to the interpreter's tensors."""
        arrays = [view.array(base) for view in self._inputs]
        targets = [view.array(base) for view in self._outputs]
        if sum(target.nbytes for target in targets) >= LARGE:
            session.run(arrays, out=targets)
            return
        for target, result in zip(targets, session.run(arrays).values(), strict=True):
            np.copyto(target, result, casting="no")

    def _run_on_device(self, session: Session, base: int) -> dict[int, DeviceArray]:
        """Run with memory of the device for what is bound or kept there: those outputs by number.

        Their tensors are not marked as stale. Python's interpreters would fetch all that are at the
        end of `invoke`, since nobody can tell them not to, and `get_tensor` does not ask.
        """
        ends = [*zip(session.inputs, self._inputs, strict=True)]
        inputs = [self._place(info, view, base) for info, view in ends]
        ends = [*zip(session.outputs, self._outputs, strict=True)]
        out = {
            info.name: self._place(info, view, base)
            for info, view in ends
            if not self._is_new(view.border)
        }
        found = session.run(inputs, out=out, keep_on_device=self._keeps)
        results = {}
        for info, view in ends:
            array = found[info.name]
            if isinstance(array, DeviceArray):
                results[view.border.number] = array
                if view.border.read_outside or not self._keeps:
                    array.numpy(view.array(base))
        return results

    def _place(self, info: TensorInfo, view: TensorView, base: int) -> DeviceArray | np.ndarray:
        """Where a tensor is: in memory that it is bound to, or with the interpreter."""
        binding = self._bound.get(view.border.number)
        return view.array(base) if binding is None else binding.array(self._factory.device, info)

    def _is_new(self, border: BorderTensor) -> bool:
        """Whether an output gets new memory of the device in every run."""
        return self._keeps and border.is_output and border.number not in self._bound

    @property
    def has_run(self) -> bool:
        return self._results is not None

    def result(self, number: int) -> DeviceArray | None:
        """An output of the last run in the device's memory; None where it is not there."""
        return (self._results or {}).get(number)

    def fetch(self, number: int) -> None:
        """Copy an output from the device's memory to the interpreter's, if it is there."""
        array = self.result(number)
        if array is not None:
            view = next(view for view in self._outputs if view.border.number == number)
            array.numpy(view.array(Host(self.context).base))

    def bind(self, number: int, memory: object) -> MemoryBinding:
        """Hold memory for the tensor with this number; an InputError where it does not fit."""
        assert self._session is not None
        borders = (*self.file.inputs, *self.file.outputs)
        infos = (*self._session.inputs, *self._session.outputs)
        place = next(i for i, border in enumerate(borders) if border.number == number)
        is_output = place >= len(self.file.inputs)
        return bind_memory(self._factory.device, infos[place], memory, is_output)

    def close(self) -> None:
        """Free what the device holds for it."""
        self._session, self._results = None, None
        while self._sessions:
            self._sessions.popitem()[1].close()
