"""Serializes records of a TFLite file, which `file.py` reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields

import flatbuffers
import numpy as np

from fourfold.formats.tflite.options import SECOND
from fourfold.formats.tflite.records import (
    FileRecord,
    OperatorRecord,
    QuantizationRecord,
    SignatureRecord,
    SubgraphRecord,
    TensorRecord,
)
from fourfold.formats.tflite.schema import OPERATORS, TYPES
from fourfold.formats.tflite.write_graph.draft import OPTION_TABLES

ALIGNMENT = 64  # weights are read in place; this is a cache line
MAX_INSIDE_BYTES = 2**31 - 2**26  # bytes of weights; flatbuffer offsets have 31 bits
_LAST_OLD_CODE = 127  # later operators have their number in a second field
_PLACEHOLDER = 2  # placeholder for an offset that is not known yet

Fill = Callable[[flatbuffers.Builder], None]


def serialize(file: FileRecord, max_inside: int = MAX_INSIDE_BYTES) -> bytes:
    """Return the bytes of the file.

    If there are too many weights for a flatbuffer, they follow it, and its tables have their
    offsets.
    """
    total = sum(buffer.nbytes for buffer in file.buffers)
    if total <= max_inside:
        return _Serializer().file(file)
    sizes = [buffer.nbytes for buffer in file.buffers]
    # The size of the tables does not depend on the offsets in them.
    start = len(_Serializer([_PLACEHOLDER] * len(sizes)).file(file))
    buffer_offsetss: list[int] = []
    parts: list[bytes | memoryview] = []
    for buffer in file.buffers:
        gap = -start % ALIGNMENT
        buffer_offsetss.append(start + gap if buffer.nbytes else 0)
        parts += [bytes(gap), _bytes(buffer)]
        start += gap + buffer.nbytes
    return b"".join([_Serializer(buffer_offsetss).file(file), *parts])


def _bytes(array: np.ndarray) -> memoryview:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


@dataclass
class _Serializer:
    """Builds one file from its end; `offsets` are those of buffers after the tables, if any."""

    buffer_offsets: Sequence[int] | None = None
    builder: flatbuffers.Builder = field(default_factory=lambda: flatbuffers.Builder(1024))
    codes: dict[tuple[str, str, int], int] = field(default_factory=dict)

    def file(self, file: FileRecord) -> bytes:
        builder = self.builder
        # Buffers are written first, since flatbuffers are built from the end.
        buffers = self._references(
            [self._buffer(i, buffer) for i, buffer in enumerate(file.buffers)]
        )
        graphs = self._references([self._subgraph(graph) for graph in file.subgraphs])
        codes = self._references([self._code(*code) for code in self.codes])
        signatures = self._references([self._signature(one) for one in file.signatures])
        notes = [self._note(file, name) for name in file.metadata]
        offsets = {6: self._references(notes)} if notes else {}
        description = builder.CreateString(file.description)
        root = self._table(
            8,
            lambda b: b.PrependUint32Slot(0, file.version, 0),
            {1: codes, 2: graphs, 3: description, 4: buffers, 7: signatures, **offsets},
        )
        builder.Finish(root, file_identifier=b"TFL3")
        return bytes(builder.Output())

    def _table(self, slots: int, fill: Fill, offsets: Mapping[int, int]) -> int:
        """Write a table with offsets to earlier objects; `fill` adds its scalars."""
        self.builder.StartObject(slots)
        for slot, offset in offsets.items():
            self.builder.PrependUOffsetTRelativeSlot(slot, offset, 0)
        fill(self.builder)
        return int(self.builder.EndObject())

    def _references(self, offsets: Sequence[int]) -> int:
        self.builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            self.builder.PrependUOffsetTRelative(offset)
        return int(self.builder.EndVector())

    def _numbers(self, values: Sequence[float] | np.ndarray, dtype: str = "int32") -> int:
        return int(self.builder.CreateNumpyVector(np.asarray(values, dtype)))

    def _buffer(self, number: int, data: np.ndarray) -> int:
        if not data.nbytes:
            return self._table(3, lambda b: None, {})
        if self.buffer_offsets is not None:
            offset = self.buffer_offsets[number]

            def outside(builder: flatbuffers.Builder) -> None:
                builder.PrependUint64Slot(1, offset, 0)
                builder.PrependUint64Slot(2, data.nbytes, 0)

            return self._table(3, outside, {})
        builder = self.builder
        builder.StartVector(1, data.nbytes, ALIGNMENT)
        builder.head -= data.nbytes
        builder.Bytes[builder.head : builder.head + data.nbytes] = _bytes(data)
        return self._table(3, lambda b: None, {0: builder.EndVector()})

    def _subgraph(self, graph: SubgraphRecord) -> int:
        offsets = {
            0: self._references([self._tensor(tensor) for tensor in graph.tensors]),
            1: self._numbers(graph.inputs),
            2: self._numbers(graph.outputs),
            3: self._references([self._operator(operator) for operator in graph.operators]),
            4: self.builder.CreateString(graph.name),
        }
        return self._table(5, lambda b: None, offsets)

    def _tensor(self, tensor: TensorRecord) -> int:
        assert tensor.dtype is not None
        code = TYPES.index(tensor.dtype)
        offsets = {0: self._numbers(tensor.shape), 3: self.builder.CreateString(tensor.name)}
        if tensor.quantization is not None:
            offsets[4] = self._quantization(tensor.quantization)
        if tensor.signature is not None:
            offsets[7] = self._numbers(tensor.signature)

        def fill(builder: flatbuffers.Builder) -> None:
            builder.PrependInt8Slot(1, code, 0)
            builder.PrependUint32Slot(2, tensor.buffer, 0)
            builder.PrependBoolSlot(5, tensor.variable, False)
            builder.PrependBoolSlot(8, tensor.has_rank, False)

        return self._table(10, fill, offsets)

    def _quantization(self, record: QuantizationRecord) -> int:
        offsets = {
            2: self._numbers(record.scale, "float32"),
            3: self._numbers(record.zero_point, "int64"),
        }
        return self._table(7, lambda b: b.PrependInt32Slot(6, record.axis, 0), offsets)

    def _operator(self, operator: OperatorRecord) -> int:
        key = (operator.op, operator.custom_code, operator.version)
        index = self.codes.setdefault(key, len(self.codes))
        offsets = {1: self._numbers(operator.inputs), 2: self._numbers(operator.outputs)}
        code = OPTION_TABLES.get(operator.op, 0) if operator.options is not None else 0
        assert code < SECOND
        if code:
            offsets[4] = self._options(operator.options)
        if operator.custom_options.size:
            offsets[5] = self._numbers(operator.custom_options, "uint8")

        def fill(builder: flatbuffers.Builder) -> None:
            builder.PrependUint32Slot(0, index, 0)
            builder.PrependUint8Slot(3, code, 0)

        return self._table(13, fill, offsets)

    def _options(self, options: object) -> int:
        """Write a table of options; the fields of its dataclass are the slots."""
        slots = [(f, getattr(options, f.name)) for f in fields(options)]  # type: ignore[arg-type]
        offsets = {}
        for slot, (one, value) in enumerate(slots):
            if one.type == "Ints":
                offsets[slot] = self._numbers(value)
            elif one.type == "Text":
                offsets[slot] = self.builder.CreateString(value)

        def fill(builder: flatbuffers.Builder) -> None:
            adders = {
                "Byte": builder.PrependInt8Slot,
                "Int": builder.PrependInt32Slot,
                "Bool": builder.PrependBoolSlot,
                "Float": builder.PrependFloat32Slot,
            }
            for slot, (one, value) in enumerate(slots):
                if one.type in adders:
                    adders[one.type](slot, value, one.default)

        return self._table(len(slots), fill, offsets)

    def _code(self, op: str, custom_code: str, version: int) -> int:
        number = OPERATORS.index(op)
        offsets = {1: self.builder.CreateString(custom_code)} if custom_code else {}

        def fill(builder: flatbuffers.Builder) -> None:
            builder.PrependInt8Slot(0, min(number, _LAST_OLD_CODE), 0)
            builder.PrependInt32Slot(2, version, 1)
            builder.PrependInt32Slot(3, number, 0)

        return self._table(4, fill, offsets)

    def _note(self, file: FileRecord, name: str) -> int:
        """Write metadata: a name and the index of its buffer."""
        number = next(i for i, data in enumerate(file.buffers) if data is file.metadata[name])
        offsets = {0: self.builder.CreateString(name)}
        return self._table(2, lambda b: b.PrependUint32Slot(1, number, 0), offsets)

    def _signature(self, signature: SignatureRecord) -> int:
        offsets = {
            0: self._references([self._entry(*item) for item in signature.inputs.items()]),
            1: self._references([self._entry(*item) for item in signature.outputs.items()]),
            2: self.builder.CreateString(signature.key),
        }
        return self._table(5, lambda b: b.PrependUint32Slot(4, signature.subgraph, 0), offsets)

    def _entry(self, name: str, tensor: int) -> int:
        offsets = {0: self.builder.CreateString(name)}
        return self._table(2, lambda b: b.PrependUint32Slot(1, tensor, 0), offsets)
