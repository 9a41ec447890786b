"""Writes small TFLite files: tensors and operators in, bytes out. For tests alone.

    write(
        [Tensor("x", (1, 4)), Tensor("w", (2, 4), data=weights), Tensor("y", (1, 2))],
        [Operator("FULLY_CONNECTED", ["x", "w", None], ["y"], "FullyConnectedOptions")],
        inputs=["x"],
        outputs=["y"],
    )

Tensors are named by name or by number; options by the names of the schema's own Python bindings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import flatbuffers
import numpy as np
import tflite

Reference = str | int | None
Parts = list[int]

_TYPES = {
    "float32": "FLOAT32",
    "float16": "FLOAT16",
    "int32": "INT32",
    "uint8": "UINT8",
    "int64": "INT64",
    "bool": "BOOL",
    "int16": "INT16",
    "int8": "INT8",
    "float64": "FLOAT64",
    "complex64": "COMPLEX64",
    "int4": "INT4",
    "str": "STRING",
    "resource": "RESOURCE",
}
_VECTOR = {np.dtype(np.int32): 1, np.dtype(np.uint16): 2, np.dtype(np.uint8): 3}


@dataclass(frozen=True)
class Level:
    """One level of a sparse tensor: a size, or segments and indices."""

    size: int = 0
    segments: np.ndarray | None = None
    indices: np.ndarray | None = None


@dataclass(frozen=True)
class Sparsity:
    order: Sequence[int]
    levels: Sequence[Level]
    block_map: Sequence[int] = ()


@dataclass(frozen=True)
class Tensor:
    """A tensor; with `data` it is a constant with exactly these bytes."""

    name: str
    shape: Sequence[int]
    dtype: str = "float32"
    data: np.ndarray | None = None
    scale: Sequence[float] = ()
    zero_point: Sequence[int] = ()
    axis: int = 0
    signature: Sequence[int] | None = None
    variable: bool = False
    sparsity: Sparsity | None = None


@dataclass(frozen=True)
class Operator:
    """An operator; `options` is a table of the schema, `fields` its values ({'StrideW': 2})."""

    op: str
    inputs: Sequence[Reference]
    outputs: Sequence[Reference]
    options: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)
    custom_code: str = ""
    custom_options: bytes = b""
    version: int = 1


@dataclass(frozen=True)
class Subgraph:
    tensors: Sequence[Tensor]
    operators: Sequence[Operator]
    inputs: Sequence[Reference]
    outputs: Sequence[Reference]
    name: str = "main"


@dataclass(frozen=True)
class Signature:
    key: str
    inputs: Mapping[str, int]
    outputs: Mapping[str, int]
    subgraph: int = 0


def constant(name: str, data: Any, dtype: str = "int32") -> Tensor:
    """Return a constant tensor of numbers."""
    array = np.asarray(data, dtype)
    return Tensor(name, array.shape, dtype, array)


def write(
    tensors: Sequence[Tensor],
    operators: Sequence[Operator],
    inputs: Sequence[Reference],
    outputs: Sequence[Reference],
    **more: Any,
) -> bytes:
    """Return the bytes of a file with one graph."""
    return write_model([Subgraph(tensors, operators, inputs, outputs)], **more)


def write_model(
    subgraphs: Sequence[Subgraph],
    signatures: Sequence[Signature] = (),
    description: str = "made for a test",
    metadata: Mapping[str, bytes] | None = None,
) -> bytes:
    return _Writer().model(subgraphs, signatures, description, metadata or {})


class _Writer:
    def __init__(self) -> None:
        self.builder = flatbuffers.Builder(1024)
        self.codes: list[tuple[str, str, int]] = []
        self.buffers: list[bytes] = [b""]

    def model(
        self,
        subgraphs: Sequence[Subgraph],
        signatures: Sequence[Signature],
        description: str,
        metadata: Mapping[str, bytes],
    ) -> bytes:
        graphs = self.tables([self.subgraph(item) for item in subgraphs])
        notes = self.tables([self.note(name, data) for name, data in metadata.items()])
        named = self.tables([self.signature(item) for item in signatures])
        parts = {
            "OperatorCodes": self.tables([self.code(*item) for item in self.codes]),
            "Buffers": self.tables([self.buffer(data) for data in self.buffers]),
            "Description": self.builder.CreateString(description),
            "Subgraphs": graphs,
            "Metadata": notes,
            "SignatureDefs": named,
            "Version": 3,
        }
        self.builder.Finish(self.table("Model", parts), file_identifier=b"TFL3")
        return bytes(self.builder.Output())

    def table(self, kind: str, fields: Mapping[str, Any]) -> int:
        """Write a table with the functions of the bindings; fields that are None are omitted."""
        getattr(tflite, f"{kind}Start")(self.builder)
        for name, value in fields.items():
            if value is not None:
                getattr(tflite, f"{kind}Add{name}")(self.builder, value)
        return int(getattr(tflite, f"{kind}End")(self.builder))

    def tables(self, offsets: Parts) -> int:
        self.builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            self.builder.PrependUOffsetTRelative(offset)
        return int(self.builder.EndVector())

    def vector(self, values: Any, dtype: str = "int32") -> int:
        return int(self.builder.CreateNumpyVector(np.asarray(values, dtype)))

    def subgraph(self, graph: Subgraph) -> int:
        names = {tensor.name: index for index, tensor in reversed(list(enumerate(graph.tensors)))}

        def indices(references: Sequence[Reference]) -> int:
            return self.vector(
                [-1 if r is None else names[r] if isinstance(r, str) else r for r in references]
            )

        parts = {
            "Tensors": self.tables([self.tensor(tensor) for tensor in graph.tensors]),
            "Operators": self.tables(
                [self.operator(o, indices(o.inputs), indices(o.outputs)) for o in graph.operators]
            ),
            "Inputs": indices(graph.inputs),
            "Outputs": indices(graph.outputs),
            "Name": self.builder.CreateString(graph.name),
        }
        return self.table("SubGraph", parts)

    def tensor(self, tensor: Tensor) -> int:
        buffer = 0
        if tensor.data is not None:
            buffer = len(self.buffers)
            self.buffers.append(np.ascontiguousarray(tensor.data).tobytes())
        signature = tensor.signature
        parts = {
            "Shape": self.vector(tensor.shape),
            "Name": self.builder.CreateString(tensor.name),
            "Quantization": self.quantization(tensor),
            "Sparsity": self.sparsity(tensor.sparsity),
            "ShapeSignature": None if signature is None else self.vector(signature),
            "Type": getattr(tflite.TensorType, _TYPES[tensor.dtype]),
            "Buffer": buffer,
            "IsVariable": tensor.variable,
        }
        return self.table("Tensor", parts)

    def quantization(self, tensor: Tensor) -> int | None:
        if not tensor.scale:
            return None
        parts = {
            "Scale": self.vector(tensor.scale, "float32"),
            "ZeroPoint": self.vector(tensor.zero_point, "int64"),
            "QuantizedDimension": tensor.axis,
        }
        return self.table("QuantizationParameters", parts)

    def sparsity(self, sparsity: Sparsity | None) -> int | None:
        if sparsity is None:
            return None
        parts = {
            "TraversalOrder": self.vector(sparsity.order),
            "BlockMap": self.vector(sparsity.block_map) if sparsity.block_map else None,
            "DimMetadata": self.tables([self.level(level) for level in sparsity.levels]),
        }
        return self.table("SparsityParameters", parts)

    def level(self, level: Level) -> int:
        if level.segments is None or level.indices is None:
            return self.table("DimensionMetadata", {"Format": 0, "DenseSize": level.size})
        parts: dict[str, Any] = {"Format": 1}
        for name, array in (("ArraySegments", level.segments), ("ArrayIndices", level.indices)):
            kind = {1: "Int32Vector", 2: "Uint16Vector", 3: "Uint8Vector"}[_VECTOR[array.dtype]]
            values = self.builder.CreateNumpyVector(array)
            parts[f"{name}Type"] = _VECTOR[array.dtype]
            parts[name] = self.table(kind, {"Values": values})
        return self.table("DimensionMetadata", parts)

    def operator(self, operator: Operator, inputs: int, outputs: int) -> int:
        key = (operator.op, operator.custom_code, operator.version)
        if key not in self.codes:
            self.codes.append(key)
        parts: dict[str, Any] = {
            "Inputs": inputs,
            "Outputs": outputs,
            "OpcodeIndex": self.codes.index(key),
        }
        if operator.custom_options:
            parts["CustomOptions"] = self.part(operator.custom_options)
        if operator.options:
            vectors = {name: self.part(value) for name, value in operator.fields.items()}
            second = "" if hasattr(tflite.BuiltinOptions, operator.options) else "2"
            union = getattr(tflite, f"BuiltinOptions{second}")
            parts[f"BuiltinOptions{second}"] = self.table(operator.options, vectors)
            parts[f"BuiltinOptions{second}Type"] = getattr(union, operator.options)
        return self.table("Operator", parts)

    def part(self, value: Any) -> Any:
        """Write a value that must precede its table, and return its offset."""
        if isinstance(value, str):
            return self.builder.CreateString(value)
        if isinstance(value, bytes):
            return self.vector(np.frombuffer(value, np.uint8), "uint8")
        return self.vector(value) if isinstance(value, tuple | list) else value

    def code(self, op: str, custom_code: str, version: int) -> int:
        number = getattr(tflite.BuiltinOperator, op)
        parts = {
            "CustomCode": self.builder.CreateString(custom_code) if custom_code else None,
            "DeprecatedBuiltinCode": min(number, 127),
            "BuiltinCode": number,
            "Version": version,
        }
        return self.table("OperatorCode", parts)

    def buffer(self, data: bytes) -> int:
        if not data:
            return self.table("Buffer", {})
        # LiteRT reads constants in place and requires alignment.
        self.builder.StartVector(1, len(data), 16)
        self.builder.head -= len(data)
        self.builder.Bytes[self.builder.head : self.builder.head + len(data)] = data
        return self.table("Buffer", {"Data": self.builder.EndVector()})

    def note(self, name: str, data: bytes) -> int:
        self.buffers.append(data)
        parts = {"Name": self.builder.CreateString(name), "Buffer": len(self.buffers) - 1}
        return self.table("Metadata", parts)

    def signature(self, signature: Signature) -> int:
        parts = {
            "Inputs": self.tables([self.entry(*item) for item in signature.inputs.items()]),
            "Outputs": self.tables([self.entry(*item) for item in signature.outputs.items()]),
            "SignatureKey": self.builder.CreateString(signature.key),
            "SubgraphIndex": signature.subgraph,
        }
        return self.table("SignatureDef", parts)

    def entry(self, name: str, index: int) -> int:
        parts = {"Name": self.builder.CreateString(name), "TensorIndex": index}
        return self.table("TensorMap", parts)
