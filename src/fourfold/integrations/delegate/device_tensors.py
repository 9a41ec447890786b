"""DeviceTensors: inputs and outputs of interpreters in device memory, by name or index."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from fourfold.errors import InputError, nearest
from fourfold.integrations.delegate.claimable_graph import BorderTensor, ClaimableGraph
from fourfold.integrations.delegate.delegate_kernel import DelegateKernel
from fourfold.runtime.device_array import DeviceArray
from fourfold.runtime.device_memory import MemoryBinding

INPUT, OUTPUT = "input", "output"
Bound = dict[int, MemoryBinding]  # by tensor number


class FoundTensor(NamedTuple):
    """A tensor selected by the caller, and the prepared partitions of its graph."""

    number: int
    name: str
    graph: ClaimableGraph
    kernels: Sequence[DelegateKernel]

    @property
    def readers(self) -> list[DelegateKernel]:
        return [one for one in self.kernels if self.number in _numbers(one.file.inputs)]

    @property
    def writer(self) -> DelegateKernel | None:
        """The partition that computes the tensor, or None if the interpreter does."""
        writers = (one for one in self.kernels if self.number in _numbers(one.file.outputs))
        return next(writers, None)


class DeviceTensors:
    """Inputs and outputs of the graphs that `kernels` belong to.

    Bindings hold for all interpreters of a delegate, also after an interpreter repartitions its
    graph.
    """

    def __init__(self, kernels: Mapping[int, DelegateKernel]) -> None:
        self._kernels = kernels
        self._bound: dict[int, Bound] = {}

    def bound_in(self, graph: ClaimableGraph) -> Bound:
        """Return the bindings of one graph of the model."""
        return self._bound.setdefault(graph.origin.main, {})

    def output(self, which: str | int) -> DeviceArray:
        """Return an output of the last run in device memory."""
        tensor = self._find(which, OUTPUT)
        kernel = tensor.writer
        if kernel is None:
            raise _not_claimed(tensor)
        _check_run(kernel, tensor)
        array = kernel.result(tensor.number)
        if array is None:
            raise InputError(
                f"output {tensor.name!r} is in the interpreter's memory",
                "allow_buffer_handle_output is not set, and nothing is bound to it",
                "pass allow_buffer_handle_output=True, or call bind_buffer_to_output()",
            )
        return array

    def ensure_readable(self, which: str | int) -> None:
        """Copy the result of the last run to the interpreter's tensor."""
        tensor = self._find(which, OUTPUT)
        kernel = tensor.writer
        if kernel is not None:
            _check_run(kernel, tensor)
            kernel.fetch(tensor.number)

    def bind_input(self, which: str | int, memory: object) -> None:
        """Read an input from device memory, in all partitions that use it."""
        tensor = self._find(which, INPUT)
        if memory is not None:
            _check_readers(tensor)
        self._bind(tensor, tensor.readers, memory)

    def bind_output(self, which: str | int, memory: object) -> None:
        """Write an output to device memory."""
        tensor = self._find(which, OUTPUT)
        if tensor.writer is None:
            raise _not_claimed(tensor)
        self._bind(tensor, [tensor.writer], memory)

    def _bind(self, tensor: FoundTensor, users: Iterable[DelegateKernel], memory: object) -> None:
        bound = self.bound_in(tensor.graph)
        if memory is None:
            bound.pop(tensor.number, None)
            return
        bindings = [kernel.bind(tensor.number, memory) for kernel in users]
        bound[tensor.number] = bindings[0]

    def _find(self, which: str | int, kind: str) -> FoundTensor:
        """Return the input or output that the caller selected, in the one graph that has it."""
        graphs: dict[int, list[DelegateKernel]] = {}
        for kernel in self._kernels.values():
            if kernel.is_ready:
                graphs.setdefault(kernel.context, []).append(kernel)
        if not graphs:
            raise _not_ready(which, kind, bool(self._kernels))
        titles: dict[int, str] = {}
        matches: list[FoundTensor] = []
        for kernels in graphs.values():
            graph = kernels[0].file.graph
            numbers = graph.origin.graph.inputs if kind == INPUT else graph.origin.outputs
            names = {number: graph.origin.names[number] for number in numbers}
            titles.update(names)
            selected = (i for i in names if which in (i, names[i]))
            matches += (FoundTensor(i, names[i], graph, kernels) for i in selected)
        if not matches:
            raise _unknown(which, kind, titles)
        if len(matches) > 1:
            what = f"{len(matches)} graphs have {kind} {which!r}"
            why = "this delegate serves several interpreters, or several signatures of one"
            raise InputError(what, why, "use one GpuDelegate per interpreter")
        return matches[0]


def _numbers(borders: Iterable[BorderTensor]) -> set[int]:
    return {border.number for border in borders}


def _check_run(kernel: DelegateKernel, tensor: FoundTensor) -> None:
    if not kernel.has_run:
        what = f"output {tensor.name!r} has no value yet"
        why = "nothing has run since allocate_tensors(), or the last run failed"
        raise InputError(what, why, "call invoke() first")


def _check_readers(tensor: FoundTensor) -> None:
    """Raise InputError if a node outside the GPU partitions reads an input."""
    claimed = {number for kernel in tensor.readers for number in kernel.file.operators}
    others = sorted(tensor.graph.readers_of(tensor.number) - claimed)
    if not claimed:
        why = "no node on the GPU reads it"
    elif others:
        name, op = tensor.graph.title(others[0])
        why = f"{op} {name!r}, which the interpreter runs, reads it, too"
    else:
        return
    fix = "pass it with set_tensor(); delegate.claims lists the interpreter's nodes and reasons"
    raise InputError(f"input {tensor.name!r} cannot be bound", why, fix)


def _not_claimed(tensor: FoundTensor) -> InputError:
    what, why = f"output {tensor.name!r} is not on the GPU", "the interpreter computes it itself"
    return InputError(what, why, "read it with get_tensor(); delegate.claims has the reason")


def _not_ready(which: str | int, kind: str, has_kernels: bool) -> InputError:
    what = f"{kind} {which!r} cannot be reached yet"
    if has_kernels:
        why, fix = "the interpreter has not allocated its tensors", "call allocate_tensors() first"
    else:
        why = "no interpreter has assigned nodes to the delegate"
        fix = "pass the delegate to an Interpreter; if you did, delegate.claims has the reason"
    return InputError(what, why, fix)


def _unknown(which: str | int, kind: str, names: Mapping[int, str]) -> InputError:
    ports = ", ".join(f"{name!r} with index {number}" for number, name in names.items())
    what = f"the model has no {kind} {which!r}"
    return InputError(what, f"it has {ports}", nearest(str(which), names.values()))
