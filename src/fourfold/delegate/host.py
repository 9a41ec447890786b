"""Host: the interpreter's graph as a delegate sees it, through the functions of its context."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fourfold.delegate import structs
from fourfold.delegate.structs import (
    OK,
    TfLiteContext,
    TfLiteDelegateParams,
    TfLiteNode,
    TfLiteRegistration,
    TfLiteTensor,
)
from fourfold.errors import DeviceError
from fourfold.formats.tflite.schema import operator_name
from fourfold.types import Shape

DELEGATE = "DELEGATE"


@dataclass(frozen=True)
class Operator:
    """A node of the interpreter: the op as files call it, and its tensors by number."""

    op: str
    custom_code: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class NodeSubset:
    """Nodes that the interpreter would hand over together, and the tensors at their border."""

    nodes: tuple[int, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    @staticmethod
    def at(address: int) -> NodeSubset:
        params = TfLiteDelegateParams.from_address(address)
        return NodeSubset(
            structs.read_numbers(params.nodes_to_replace),
            structs.read_numbers(params.input_tensors),
            structs.read_numbers(params.output_tensors),
        )


class Host:
    """One graph of an interpreter. Valid only while the interpreter calls the delegate."""

    def __init__(self, address: int) -> None:
        self.address = address
        self.context = TfLiteContext.from_address(address)

    @property
    def tensors(self) -> int:
        """How many tensors there are: those of the file, then what ops added for themselves."""
        return int(self.context.tensors_size)

    @property
    def base(self) -> int:
        """Where the tensors begin. They move when more are added."""
        return int(self.context.tensors)

    def tensor(self, number: int) -> TfLiteTensor:
        return TfLiteTensor.from_address(self.base + number * ctypes.sizeof(TfLiteTensor))

    def shape(self, number: int) -> Shape:
        return structs.read_numbers(self.tensor(number).dims)

    def plan(self) -> tuple[int, ...]:
        """The nodes that are to run, in order."""
        found = ctypes.c_void_p()
        status = self.context.GetExecutionPlan(self.address, ctypes.byref(found))
        _check(status, "GetExecutionPlan")
        return structs.read_numbers(found.value)

    def operator(self, number: int) -> Operator:
        node, registration = ctypes.c_void_p(), ctypes.c_void_p()
        places = ctypes.byref(node), ctypes.byref(registration)
        status = self.context.GetNodeAndRegistration(self.address, number, *places)
        _check(status, "GetNodeAndRegistration")
        assert node.value is not None
        assert registration.value is not None
        found = TfLiteNode.from_address(node.value)
        known = TfLiteRegistration.from_address(registration.value)
        op, name = operator_name(known.builtin_code), known.custom_name or b""
        custom = name.decode(errors="replace") if op == "CUSTOM" else ""
        inputs, outputs = structs.read_numbers(found.inputs), structs.read_numbers(found.outputs)
        return Operator(op, custom, inputs, outputs)

    def preview(self, nodes: Iterable[int]) -> list[NodeSubset]:
        """The subsets that claiming these nodes would give."""
        wanted = structs.write_numbers(sorted(nodes))
        found, count = ctypes.c_void_p(), ctypes.c_int()
        places = ctypes.byref(found), ctypes.byref(count)
        status = self.context.PreviewDelegatePartitioning(
            self.address, ctypes.addressof(wanted), *places
        )
        _check(status, "PreviewDelegatePartitioning")
        size = ctypes.sizeof(TfLiteDelegateParams)
        return [NodeSubset.at((found.value or 0) + size * number) for number in range(count.value)]

    def claim(self, nodes: Iterable[int], registration: TfLiteRegistration, delegate: int) -> None:
        """Hand these nodes over to kernels of this registration."""
        wanted = structs.write_numbers(sorted(nodes))
        status = self.context.ReplaceNodeSubsetsWithDelegateKernels(
            self.address, registration, ctypes.addressof(wanted), delegate
        )
        _check(status, "ReplaceNodeSubsetsWithDelegateKernels")

    def resize(self, number: int, shape: Sequence[int]) -> None:
        place = self.base + number * ctypes.sizeof(TfLiteTensor)
        sizes = structs.give_numbers(shape)  # it takes them over
        _check(self.context.ResizeTensor(self.address, place, sizes), "ResizeTensor")

    def report(self, message: str) -> None:
        """A message in the error that the interpreter raises."""
        text = f"{message}\n".replace("%", "%%")  # it is a format in C
        self.context.ReportError(self.address, text.encode())


def _check(status: int, function: str) -> None:
    if status != OK:
        raise DeviceError(
            f"the interpreter refused {function}",
            f"it answered with status {status}",
            "report this with the version of the runtime; run without the delegate until then",
        )
