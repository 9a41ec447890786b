"""Draft: the graph of a TFLite file under construction, with tensors, operators and buffers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from fourfold.formats.names import UniqueNames
from fourfold.formats.rule_table import Unconvertible
from fourfold.formats.tflite.options import dataclass_of
from fourfold.formats.tflite.records import (
    OperatorRecord,
    QuantizationRecord,
    SubgraphRecord,
    TensorRecord,
)
from fourfold.formats.tflite.schema import CUSTOM
from fourfold.formats.tflite.write_graph.versions import check_types, version_of
from fourfold.formats.writable import StoredAs
from fourfold.types import DType, Quantization, Shape, TensorType

OPTION_TABLES = {
    "ADD": 11,
    "ARG_MAX": 40,
    "ARG_MIN": 57,
    "AVERAGE_POOL_2D": 5,
    "BATCH_MATMUL": 101,
    "CALL_ONCE": 103,
    "CAST": 37,
    "CONCATENATION": 10,
    "CONV_2D": 1,
    "CONV_3D": 106,
    "CUMSUM": 102,
    "DEPTH_TO_SPACE": 94,
    "DEPTHWISE_CONV_2D": 2,
    "DIV": 29,
    "FULLY_CONNECTED": 8,
    "GATHER": 23,
    "GELU": 116,
    "L2_NORMALIZATION": 12,
    "LEAKY_RELU": 75,
    "LOCAL_RESPONSE_NORMALIZATION": 13,
    "MAX_POOL_2D": 5,
    "MEAN": 27,
    "MIRROR_PAD": 77,
    "MUL": 21,
    "PACK": 59,
    "REDUCE_ALL": 27,
    "REDUCE_ANY": 27,
    "REDUCE_MAX": 27,
    "REDUCE_MIN": 27,
    "REDUCE_PROD": 27,
    "RESHAPE": 17,
    "RESIZE_BILINEAR": 15,
    "RESIZE_NEAREST_NEIGHBOR": 74,
    "REVERSE_SEQUENCE": 87,
    "SOFTMAX": 9,
    "SPACE_TO_DEPTH": 19,
    "STRIDED_SLICE": 32,
    "SUB": 28,
    "SUM": 27,
    "TRANSPOSE_CONV": 49,
    "VAR_HANDLE": 111,
}


def options_of(op: str, fields: dict[str, object]) -> object | None:
    """Return the options of an operator with these fields; None if it has none."""
    if op not in OPTION_TABLES:
        assert not fields, f"{op} has no options {sorted(fields)}"
        return None
    options: object = dataclass_of(OPTION_TABLES[op])(**fields)
    return options


_MAX_SHARED_BYTES = 256  # bytes up to which equal constants are shared


@dataclass(frozen=True)
class Tensor:
    """A tensor of the file: its index, its type and its quantization."""

    index: int
    type: TensorType
    quantization: Quantization | None = None

    @property
    def shape(self) -> Shape:
        return self.type.shape

    @property
    def dtype(self) -> DType:
        return self.type.dtype

    @property
    def stored(self) -> StoredAs | None:
        """Return how it stores real numbers; None for floats."""
        if self.quantization is None:
            return None
        return StoredAs(self.dtype, self.quantization)


@dataclass
class Draft:
    """One graph of a file.

    Graphs of a file share `buffers`, whose first one is empty by convention.
    """

    buffers: list[np.ndarray] = field(default_factory=lambda: [np.empty(0, np.uint8)])
    tensors: list[TensorRecord] = field(default_factory=list)
    operators: list[OperatorRecord] = field(default_factory=list)
    names: UniqueNames = field(default_factory=UniqueNames)
    small: dict[tuple[str, Shape, bytes], Tensor] = field(default_factory=dict)

    def tensor(
        self,
        name: str,
        type: TensorType,
        quantization: Quantization | None = None,
        signature: Shape = (),
    ) -> Tensor:
        """Add a tensor that an operator writes or that a caller passes."""
        return self._add(name, type, quantization, 0, signature)

    def constant(self, name: str, array: np.ndarray) -> Tensor:
        """Add a constant; small equal ones are shared, whatever their names."""
        type = TensorType.of(array)
        key = (
            (type.dtype.value, type.shape, array.tobytes())
            if array.nbytes <= _MAX_SHARED_BYTES
            else None
        )
        if key is None or key not in self.small:
            self.buffers.append(array)
            tensor = self._add(name, type, None, len(self.buffers) - 1)
            if key is None:
                return tensor
            self.small[key] = tensor
        return self.small[key]

    def stored_constant(
        self, name: str, array: np.ndarray, dtype: DType, quantization: Quantization
    ) -> Tensor:
        """Add a quantized constant; 4-bit numbers are passed as bytes."""
        type = TensorType(dtype, tuple(array.shape))
        self.buffers.append(_packed(array) if dtype is DType.I4 else array)
        return self._add(name, type, quantization, len(self.buffers) - 1)

    def _add(
        self,
        name: str,
        type: TensorType,
        quantization: Quantization | None,
        buffer: int,
        signature: Shape = (),
    ) -> Tensor:
        if type.dtype is DType.I16 and quantization is not None and any(quantization.zero_point):
            raise Unconvertible(
                f"'{name}' would be int16 with a nonzero zero point, which TFLite does not support"
            )
        record = TensorRecord(
            name=self.names.fresh(name),
            dtype=type.dtype,
            shape=type.shape,
            buffer=buffer,
            signature=signature or None,
            quantization=None if quantization is None else _quantization(quantization),
            has_rank=True,
        )
        self.tensors.append(record)
        return Tensor(len(self.tensors) - 1, type, quantization)

    def operator(
        self,
        op: str,
        inputs: Sequence[Tensor | None],
        outputs: Sequence[Tensor],
        **fields: object,
    ) -> None:
        options = options_of(op, fields)
        read = [self.tensors[one.index] for one in inputs if one is not None]
        check_types(op, read)
        version = version_of(op, read, options, outputs[0].dtype) if outputs else 1
        self.operators.append(
            OperatorRecord(
                op=op,
                version=version,
                inputs=_indices(inputs),
                outputs=_indices(outputs),
                options=options,
            )
        )

    def custom_operator(
        self, code: str, inputs: Sequence[Tensor | None], outputs: Sequence[Tensor], options: bytes
    ) -> None:
        raw = np.frombuffer(options, np.uint8)
        self.operators.append(
            OperatorRecord(
                op=CUSTOM,
                version=1,
                inputs=_indices(inputs),
                outputs=_indices(outputs),
                options=None,
                custom_code=code,
                custom_options=raw,
            )
        )

    def subgraph(
        self, name: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor]
    ) -> SubgraphRecord:
        return SubgraphRecord(
            name=name,
            tensors=tuple(self.tensors),
            inputs=_indices(inputs),
            outputs=_indices(outputs),
            operators=tuple(self.operators),
        )


def _indices(tensors: Sequence[Tensor | None]) -> tuple[int, ...]:
    return tuple(-1 if tensor is None else tensor.index for tensor in tensors)


def _quantization(quantization: Quantization) -> QuantizationRecord:
    return QuantizationRecord(quantization.scale, quantization.zero_point, quantization.axis or 0)


def _packed(array: np.ndarray) -> np.ndarray:
    """Pack two signed 4-bit numbers per byte, lower half first."""
    flat = array.reshape(-1).astype(np.int8).view(np.uint8) & 0xF
    pairs = np.append(flat, np.zeros(flat.size % 2, np.uint8)).reshape(-1, 2)
    return np.asarray(pairs[:, 0] | pairs[:, 1] << 4, np.uint8)
