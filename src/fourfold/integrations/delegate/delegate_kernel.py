"""DelegateKernel: runs claimed nodes on an interpreter's tensors."""

from __future__ import annotations

import ctypes
from collections import OrderedDict
from collections.abc import Mapping

import numpy as np

from fourfold.errors import DeviceError
from fourfold.integrations.delegate.claimable_graph import BorderTensor, SubsetFile
from fourfold.integrations.delegate.host import Host
from fourfold.integrations.delegate.session_factory import SessionFactory
from fourfold.integrations.delegate.structs import TYPES, TfLiteTensor, read_numbers
from fourfold.runtime.device_array import DeviceArray
from fourfold.runtime.device_memory import MemoryBinding, bind_memory
from fourfold.runtime.tensor_info import TensorInfo
from fourfold.session import Session
from fourfold.types import Shape

NO_ADDRESS = -1


class TensorView:
    """A tensor of the interpreter as an array, cached while its memory does not move."""

    def __init__(self, border: BorderTensor) -> None:
        self.border = border
        self._tensor = TfLiteTensor()
        self._array = np.empty(0)
        self.forget()

    def forget(self) -> None:
        """Drop the cached view, since the shape may have changed."""
        self._base: int | None = NO_ADDRESS
        self._data: int | None = NO_ADDRESS

    def array(self, base: int) -> np.ndarray:
        """Return the tensor's elements; `base` is the address of the interpreter's tensor array."""
        if base != self._base:
            self._base, self._data = base, NO_ADDRESS
            address = base + self.border.number * ctypes.sizeof(TfLiteTensor)
            self._tensor = TfLiteTensor.from_address(address)
        data = self._tensor.data
        if data != self._data:
            self._array = self._view()
            self._data = data
        return self._array

    def _view(self) -> np.ndarray:
        tensor, shape = self._tensor, read_numbers(self._tensor.dims)
        dtype = TYPES.get(tensor.type)
        kind = np.dtype(np.uint8) if dtype is None or not dtype.has_numpy else dtype.numpy
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


MAX_SESSIONS = 4  # input shapes for which a partition stays compiled
MIN_DIRECT_BYTES = 1 << 16  # smaller results are copied instead of written in place


class DelegateKernel:
    """A subset of an interpreter's nodes, as one session per recent input shape."""

    def __init__(self, file: SubsetFile, factory: SessionFactory) -> None:
        self.file, self._factory = file, factory
        self._inputs = [TensorView(border) for border in file.inputs]
        self._outputs = [TensorView(border) for border in file.outputs]
        self._sessions: OrderedDict[tuple[Shape, ...], Session] = OrderedDict()
        self._session: Session | None = None
        self._keeps = factory.options.allow_buffer_handle_output
        self._bound: Mapping[int, MemoryBinding] = {}
        self._results: dict[int, DeviceArray] | None = None  # None before the first run
        self.context = 0

    def join(self, context: int, bound: Mapping[int, MemoryBinding]) -> None:
        """Attach to an interpreter's graph, in which tensors may be `bound` to device memory."""
        self.context, self._bound = context, bound

    def open(self, shapes: tuple[Shape, ...] | None = None) -> Session:
        """Return the session for inputs of these shapes, by default those of the file."""
        borders = self.file.inputs
        shapes = tuple(border.shape for border in borders) if shapes is None else shapes
        if shapes not in self._sessions:
            pairs = zip(borders, shapes, strict=True)
            changed = {border.name: shape for border, shape in pairs if shape != border.shape}
            self._sessions[shapes] = self._factory.open(self.file.content, changed)
            while len(self._sessions) > MAX_SESSIONS:
                self._sessions.popitem(last=False)[1].close()
        self._sessions.move_to_end(shapes)
        return self._sessions[shapes]

    def prepare(self, host: Host) -> None:
        """Prepare for the current input shapes, and resize the outputs."""
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
        """Run on the interpreter's tensors, and on tensors in device memory."""
        if not self._outputs:
            return  # all nodes read constants and are part of their readers
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
        """Run from and to the interpreter's tensors."""
        arrays = [view.array(base) for view in self._inputs]
        targets = [view.array(base) for view in self._outputs]
        if sum(target.nbytes for target in targets) >= MIN_DIRECT_BYTES:
            session.run(arrays, out=targets)
            return
        for target, result in zip(targets, session.run(arrays).values(), strict=True):
            np.copyto(target, result, casting="no")

    def _run_on_device(self, session: Session, base: int) -> dict[int, DeviceArray]:
        """Run with device memory for tensors that are bound or kept there, and return those
        outputs.

        Their tensors are not marked as stale. Python interpreters would download all stale outputs
        at the end of `invoke`, with no option to prevent it, and `get_tensor` does not check.
        """
        input_pairs = [*zip(session.inputs, self._inputs, strict=True)]
        inputs = [self._place(info, view, base) for info, view in input_pairs]
        output_pairs = [*zip(session.outputs, self._outputs, strict=True)]
        out = {
            info.name: self._place(info, view, base)
            for info, view in output_pairs
            if not self._is_new(view.border)
        }
        arrays = session.run(inputs, out=out, keep_on_device=self._keeps)
        results = {}
        for info, view in output_pairs:
            array = arrays[info.name]
            if isinstance(array, DeviceArray):
                results[view.border.number] = array
                if view.border.read_outside or not self._keeps:
                    array.numpy(view.array(base))
        return results

    def _place(self, info: TensorInfo, view: TensorView, base: int) -> DeviceArray | np.ndarray:
        """Return a tensor's memory: the bound device memory, or the interpreter's."""
        binding = self._bound.get(view.border.number)
        return view.array(base) if binding is None else binding.array(self._factory.device, info)

    def _is_new(self, border: BorderTensor) -> bool:
        """Return True if an output gets new device memory in every run."""
        return self._keeps and border.is_output and border.number not in self._bound

    @property
    def has_run(self) -> bool:
        return self._results is not None

    def result(self, number: int) -> DeviceArray | None:
        """Return an output of the last run in device memory, or None if it is on the host."""
        return (self._results or {}).get(number)

    def fetch(self, number: int) -> None:
        """Copy an output from device memory to the interpreter, if it is in device memory."""
        array = self.result(number)
        if array is not None:
            view = next(view for view in self._outputs if view.border.number == number)
            array.numpy(view.array(Host(self.context).base))

    def bind(self, number: int, memory: object) -> MemoryBinding:
        """Bind device memory to a tensor. Raises InputError if it does not fit."""
        assert self._session is not None
        borders = (*self.file.inputs, *self.file.outputs)
        infos = (*self._session.inputs, *self._session.outputs)
        index = next(i for i, border in enumerate(borders) if border.number == number)
        is_output = index >= len(self.file.inputs)
        return bind_memory(self._factory.device, infos[index], memory, is_output)

    def close(self) -> None:
        """Free the sessions."""
        self._session, self._results = None, None
        while self._sessions:
            self._sessions.popitem()[1].close()
