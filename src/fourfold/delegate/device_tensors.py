"""DeviceTensors: inputs and outputs of interpreters in the device's memory, by name or index."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from fourfold.delegate.claimable_graph import BorderTensor, ClaimableGraph
from fourfold.delegate.delegate_kernel import DelegateKernel
from fourfold.errors import InputError, nearest
from fourfold.runtime.device_array import DeviceArray
from fourfold.runtime.device_memory import MemoryBinding

INPUT, OUTPUT = "input", "output"
Bound = dict[int, MemoryBinding]  # by the numbers of tensors


class FoundTensor(NamedTuple):
    """A tensor that a caller means, and the partitions of its graph that are ready."""

    number: int
    name: str
    graph: ClaimableGraph
    kernels: Sequence[DelegateKernel]

    @property
    def readers(self) -> list[DelegateKernel]:
        return [one for one in self.kernels if self.number in _numbers(one.file.inputs)]

    @property
    def writer(self) -> DelegateKernel | None:
        """The partition that computes it; None where the interpreter does that."""
        writers = (one for one in self.kernels if self.number in _numbers(one.file.outputs))
        return next(writers, None)


class DeviceTensors:
    """Inputs and outputs of the graphs that `kernels` are parts of. What is bound is so for all
    interpreters of a delegate, and stays so when an interpreter makes its partitions anew.
    """

    def __init__(self, kernels: Mapping[int, DelegateKernel]) -> None:
        self._kernels = kernels
        self._bound: dict[int, Bound] = {}

    def bound_in(self, graph: ClaimableGraph) -> Bound:
        """What is bound in one graph of the model."""
        return self._bound.setdefault(graph.origin.main, {})

    def output(self, which: str | int) -> DeviceArray:
        """An output of the last run in the device's memory."""
        found = self._find(which, OUTPUT)
        kernel = found.writer
        if kernel is None:
            raise _not_claimed(found)
        _check_run(kernel, found)
        array = kernel.result(found.number)
        if array is None:
            raise InputError(
                f"output {found.name!r} is in the interpreter's memory",
                "allow_buffer_handle_output is not set, and nothing is bound to it",
                "pass allow_buffer_handle_output=True, or call bind_buffer_to_output()",
            )
        return array

    def ensure_readable(self, which: str | int) -> None:
        """Let the interpreter's tensor have what the last run gave."""
        found = self._find(which, OUTPUT)
        kernel = found.writer
        if kernel is not None:
            _check_run(kernel, found)
            kernel.fetch(found.number)

    def bind_input(self, which: str | int, memory: object) -> None:
        """Let all partitions that read an input read it from memory of the device."""
        found = self._find(which, INPUT)
        if memory is not None:
            _check_readers(found)
        self._bind(found, found.readers, memory)

    def bind_output(self, which: str | int, memory: object) -> None:
        """Let an output be written to memory of the device."""
        found = self._find(which, OUTPUT)
        if found.writer is None:
            raise _not_claimed(found)
        self._bind(found, [found.writer], memory)

    def _bind(self, found: FoundTensor, users: Iterable[DelegateKernel], memory: object) -> None:
        bound = self.bound_in(found.graph)
        if memory is None:
            bound.pop(found.number, None)
            return
        bindings = [kernel.bind(found.number, memory) for kernel in users]
        bound[found.number] = bindings[0]

    def _find(self, which: str | int, kind: str) -> FoundTensor:
        """The input or output that a caller means, in the one graph that has it."""
        graphs: dict[int, list[DelegateKernel]] = {}
        for kernel in self._kernels.values():
            if kernel.is_ready:
                graphs.setdefault(kernel.context, []).append(kernel)
        if not graphs:
            raise _not_ready(which, kind, bool(self._kernels))
        known: dict[int, str] = {}
        found: list[FoundTensor] = []
        for kernels in graphs.values():
            graph = kernels[0].file.graph
            ends = graph.origin.graph.inputs if kind == INPUT else graph.origin.outputs
            names = {number: graph.origin.names[number] for number in ends}
            known.update(names)
            meant = (i for i in names if which in (i, names[i]))
            found += (FoundTensor(i, names[i], graph, kernels) for i in meant)
        if not found:
            raise _unknown(which, kind, known)
        if len(found) > 1:
            what = f"{len(found)} graphs have {kind} {which!r}"
            why = "this delegate serves several interpreters, or several signatures of one"
            raise InputError(what, why, "give each interpreter a GpuDelegate of its own")
        return found[0]


def _numbers(borders: Iterable[BorderTensor]) -> set[int]:
    return {border.number for border in borders}


def _check_run(kernel: DelegateKernel, found: FoundTensor) -> None:
    if not kernel.has_run:
        what = f"output {found.name!r} is not there yet"
        why = "nothing has run since allocate_tensors(), or the last run failed"
        raise InputError(what, why, "call invoke() first")


def _check_readers(found: FoundTensor) -> None:
    """An InputError where somebody reads an input who cannot read memory of the device."""
    claimed = {number for kernel in found.readers for number in kernel.file.operators}
    others = sorted(found.graph.readers_of(found.number) - claimed)
    if not claimed:
        why = "nothing that runs on the GPU reads it"
    elif others:
        name, op = found.graph.title(others[0])
        why = f"{op} {name!r} reads it, too, which the interpreter runs"
    else:
        return
    fix = "pass it by set_tensor(); delegate.claims says what is left to the interpreter and why"
    raise InputError(f"input {found.name!r} cannot be bound", why, fix)


def _not_claimed(found: FoundTensor) -> InputError:
    what, why = f"output {found.name!r} is not on the GPU", "the interpreter computes it itself"
    return InputError(what, why, "read it by get_tensor(); delegate.claims says why that is so")


def _not_ready(which: str | int, kind: str, has_kernels: bool) -> InputError:
    what = f"{kind} {which!r} cannot be reached yet"
    if has_kernels:
        why, fix = "the interpreter has not allocated its tensors", "call allocate_tensors() first"
    else:
        why = "no interpreter has given the delegate anything to run"
        fix = "pass the delegate to an Interpreter; if it was, delegate.claims says what is wrong"
    return InputError(what, why, fix)


def _unknown(which: str | int, kind: str, known: Mapping[int, str]) -> InputError:
    ends = ", ".join(f"{name!r} with index {number}" for number, name in known.items())
    what = f"the model has no {kind} {which!r}"
    return InputError(what, f"it has {ends}", nearest(str(which), known.values()))
