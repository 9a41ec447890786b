"""Host: an interpreter's graph, accessed through the functions of its TfLiteContext."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fourfold.errors import DeviceError
from fourfold.formats.tflite.schema import operator_name
from fourfold.integrations.delegate import structs
from fourfold.integrations.delegate.structs import (
    OK,
    TfLiteContext,
    TfLiteDelegateParams,
    TfLiteNode,
    TfLiteRegistration,
    TfLiteTensor,
)
from fourfold.types import Shape

DELEGATE = "DELEGATE"


@dataclass(frozen=True)
class Operator:
    """A node of the interpreter: its op by file name, and its tensors by number."""

    op: str
    custom_code: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class NodeSubset:
    """Nodes that the interpreter delegates together, and the tensors at their border."""

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
        """Number of tensors: those of the file, then temporaries that ops added."""
        return int(self.context.tensors_size)

    @property
    def base(self) -> int:
        """Address of the tensor array, which moves when tensors are added."""
        return int(self.context.tensors)

    def tensor(self, number: int) -> TfLiteTensor:
        return TfLiteTensor.from_address(self.base + number * ctypes.sizeof(TfLiteTensor))

    def shape(self, number: int) -> Shape:
        return structs.read_numbers(self.tensor(number).dims)

    def plan(self) -> tuple[int, ...]:
        """Return the nodes to run, in order."""
        plan = ctypes.c_void_p()
        status = self.context.GetExecutionPlan(self.address, ctypes.byref(plan))
        _check(status, "GetExecutionPlan")
        return structs.read_numbers(plan.value)

    def operator(self, number: int) -> Operator:
        """Return the op and tensors of a node."""
        node, registration = ctypes.c_void_p(), ctypes.c_void_p()
        status = self.context.GetNodeAndRegistration(
            self.address, number, ctypes.byref(node), ctypes.byref(registration)
        )
        _check(status, "GetNodeAndRegistration")
        assert node.value is not None
        assert registration.value is not None
        node_struct = TfLiteNode.from_address(node.value)
        registered = TfLiteRegistration.from_address(registration.value)
        op, name = operator_name(registered.builtin_code), registered.custom_name or b""
        custom = name.decode(errors="replace") if op == "CUSTOM" else ""
        inputs = structs.read_numbers(node_struct.inputs)
        outputs = structs.read_numbers(node_struct.outputs)
        return Operator(op, custom, inputs, outputs)

    def preview(self, nodes: Iterable[int]) -> list[NodeSubset]:
        """Return the subsets that claiming these nodes would give."""
        numbers = structs.write_numbers(sorted(nodes))
        params, count = ctypes.c_void_p(), ctypes.c_int()
        status = self.context.PreviewDelegatePartitioning(
            self.address, ctypes.addressof(numbers), ctypes.byref(params), ctypes.byref(count)
        )
        _check(status, "PreviewDelegatePartitioning")
        size = ctypes.sizeof(TfLiteDelegateParams)
        return [NodeSubset.at((params.value or 0) + size * number) for number in range(count.value)]

    def claim(self, nodes: Iterable[int], registration: TfLiteRegistration, delegate: int) -> None:
        """Assign these nodes to kernels of this registration."""
        numbers = structs.write_numbers(sorted(nodes))
        status = self.context.ReplaceNodeSubsetsWithDelegateKernels(
            self.address, registration, ctypes.addressof(numbers), delegate
        )
        _check(status, "ReplaceNodeSubsetsWithDelegateKernels")

    def resize(self, number: int, shape: Sequence[int]) -> None:
        address = self.base + number * ctypes.sizeof(TfLiteTensor)
        sizes = structs.allocate_numbers(shape)  # ResizeTensor takes ownership
        _check(self.context.ResizeTensor(self.address, address, sizes), "ResizeTensor")

    def report(self, message: str) -> None:
        """Add a message to the error that the interpreter raises."""
        text = f"{message}\n".replace("%", "%%")  # the message is a printf format
        self.context.ReportError(self.address, text.encode())


def _check(status: int, function: str) -> None:
    if status != OK:
        raise DeviceError(
            f"the interpreter refused {function}",
            f"it returned status {status}",
            "report this with the version of the runtime, and run without the delegate",
        )
