"""Check that an interpreter's graph belongs to the delegate's model, before memory is trusted.

Nodes are queried one by one. Tensors lie in an array whose stride depends on the runtime. Their
types, which are plain numbers, are compared first. Pointers are followed only if all types match.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import numpy as np

from fourfold.errors import DeviceError, InputError
from fourfold.formats.tflite.records import FileRecord, OperatorRecord, SubgraphRecord
from fourfold.integrations.delegate.host import DELEGATE, Host, Operator
from fourfold.integrations.delegate.structs import READ_ONLY, TENSOR_BYTES, TYPES, TfLiteTensor

MAX_COMPARED_BYTES = 1024  # of each constant
POINTER_BYTES = 8


def check_layouts() -> None:
    """Raise DeviceError if ctypes and C compilers disagree about the layout of a tensor."""
    size = ctypes.sizeof(TfLiteTensor)
    if ctypes.sizeof(ctypes.c_void_p) == POINTER_BYTES and size != TENSOR_BYTES:
        raise DeviceError(
            f"a TfLiteTensor would have {size} bytes on this platform",
            f"the known layout has {TENSOR_BYTES}",
            "report this with the platform, and run without the delegate",
        )


def find_graph(host: Host, file: FileRecord) -> int:
    """Return the number of the model's graph that the interpreter has. Raises InputError if
    none.
    """
    reasons: list[str] = []
    for number, graph in enumerate(file.subgraphs):
        reason = next(find_differences(host, file, graph), None)
        if reason is None:
            return number
        reasons.append(reason)
    raise InputError(
        "the interpreter has another model than GpuDelegate",
        reasons[0],
        "pass the same file or bytes to both; if you do, report the runtime's version",
    )


def find_differences(host: Host, file: FileRecord, graph: SubgraphRecord) -> Iterator[str]:
    """Yield differences, the most informative first."""
    if host.tensors < len(graph.tensors):
        yield f"it has {host.tensors} tensors, and the model {len(graph.tensors)}"
        return
    differs = False
    for reason in (*_nodes(host, graph), *_types(host, graph)):
        differs = True
        yield reason
    if not differs:
        yield from _tensors(host, file, graph)


def _nodes(host: Host, graph: SubgraphRecord) -> Iterator[str]:
    plan, count = host.plan(), len(graph.operators)
    operators = {number: host.operator(number) for number in plan}
    for number, operator in operators.items():
        if number < count:
            yield from _node(number, operator, graph.operators[number])
        elif operator.op != DELEGATE:
            yield f"it has a node {number}, and the model {count} operators"
    if len(plan) < count and not any(one.op == DELEGATE for one in operators.values()):
        yield f"it has {len(plan)} nodes, and the model {count} operators"


def _node(number: int, operator: Operator, record: OperatorRecord) -> Iterator[str]:
    if (operator.op, operator.custom_code) != (record.op, record.custom_code):
        yield f"its node {number} is {operator.op}, and the model's {record.title}"
    elif (operator.inputs, operator.outputs) != (record.inputs, record.outputs):
        yield f"its node {number}, {operator.op}, has other inputs or outputs than the model's"


def _types(host: Host, graph: SubgraphRecord) -> Iterator[str]:
    for number, record in enumerate(graph.tensors):
        dtype = TYPES.get(host.tensor(number).type)
        if record.dtype is not None and dtype is not record.dtype:
            kind = "an unknown type" if dtype is None else dtype.value
            yield f"its tensor {number} has {kind}, and the model's {record.dtype.value}"


def _tensors(host: Host, file: FileRecord, graph: SubgraphRecord) -> Iterator[str]:
    for number, record in enumerate(graph.tensors):
        tensor, stored = host.tensor(number), file.buffers[record.buffer]
        name = (tensor.name or b"").decode(errors="replace")
        if name != record.name:
            yield f"its tensor {number} is called '{name}', and the model's '{record.name}'"
        elif tensor.allocation_type == READ_ONLY and stored.size:
            if tensor.bytes != stored.size or host.shape(number) != record.shape:
                yield f"its constant '{name}' has another size than the model's"
            elif not _same_bytes(tensor, stored):
                yield f"its constant '{name}' has other values than the model's"


def _same_bytes(tensor: TfLiteTensor, stored: np.ndarray) -> bool:
    size = min(stored.size, MAX_COMPARED_BYTES)
    return ctypes.string_at(tensor.data, size) == stored[:size].tobytes()
