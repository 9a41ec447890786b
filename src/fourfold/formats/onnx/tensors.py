"""Reads tensor records into arrays, as views of the file or of external data files if possible.

Graphs have no float16: 16-bit floats become f32 here, 4-bit integers become bytes.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath, PureWindowsPath

import numpy as np

from fourfold.errors import InputError, ModelError
from fourfold.formats.budget import check_shape
from fourfold.formats.onnx.file import TensorRecord, read_entries
from fourfold.formats.onnx.schema import EXTERNAL, STORED, Element, TensorField, graph_dtype
from fourfold.formats.protobuf import Message
from fourfold.formats.rule_table import Unconvertible
from fourfold.formats.source import Content, check_inside, map_file
from fourfold.types import DType, TensorType


@dataclass
class ExternalFiles:
    """The external data files of a model, each memory-mapped once.

    `model` is the path of the model's file; None for a model passed as bytes, which has no files
    next to it.
    """

    model: str | None
    _opened: dict[str, Content] = field(default_factory=dict)

    def data(self, entries: Mapping[str, str]) -> memoryview:
        """Return the bytes that a tensor's entries refer to, as a view of the file."""
        name = entries.get("location", "")
        content = memoryview(self._open(name))
        offset = _byte_count(entries, "offset", 0)
        length = _byte_count(entries, "length", max(len(content) - offset, 0))
        if offset + length > len(content):
            end = offset + length
            raise ValueError(
                f"bytes {offset} to {end} are not in '{name}', which has {len(content)} bytes"
            )
        return content[offset : offset + length]

    def _open(self, name: str) -> Content:
        if name not in self._opened:
            path = external_path(self.model, name)
            try:
                self._opened[name] = map_file(path)
            except InputError as error:
                what = f"'{path}', which holds weights of the model, cannot be opened"
                fix = "put the file next to the model, under its original name"
                raise ModelError(what, error.why, fix) from error
        return self._opened[name]


def _byte_count(entries: Mapping[str, str], key: str, default: int) -> int:
    text = entries.get(key, str(default))
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise ValueError(f"the {key} of its data is '{text[:40]}', which is not a number of bytes")
    return int(text)


def external_path(model: str | None, name: str) -> str:
    """Return the path of a file next to the model.

    Raises ValueError for any other location, and ModelError for a link to one.
    """
    if model is None:
        raise ValueError(f"its data is in the file '{name}'; pass the path of the model, not bytes")
    path = PurePosixPath(name)
    outside = path.is_absolute() or ".." in path.parts or PureWindowsPath(name).anchor
    if not path.parts or outside or "\\" in name or "\0" in name:
        raise ValueError(f"its data is in '{name}', which is not in the folder of the model")
    return check_inside(os.path.join(os.path.dirname(model), *path.parts), model)


_PACKED = {Element.UINT4, Element.INT4}  # two per byte
_IN_INTEGERS = {
    *(Element.INT32, Element.INT16, Element.INT8, Element.UINT16, Element.UINT8, Element.BOOL),
    *(Element.FLOAT16, Element.BFLOAT16, *_PACKED),
}


def declared(record: TensorRecord) -> TensorType:
    """Return the graph's type of a constant."""
    check_shape(record.shape)
    return TensorType(graph_dtype(record.element), record.shape)


def is_external(record: TensorRecord) -> bool:
    return record.message.integer(TensorField.LOCATION) == EXTERNAL


def is_widened(record: TensorRecord) -> bool:
    """Return True if the array takes more memory than its data in the file."""
    return record.element in (Element.FLOAT16, Element.BFLOAT16, *_PACKED)


def array_of(record: TensorRecord, files: ExternalFiles) -> np.ndarray:
    """Return the array in the graph's element type."""
    type = declared(record)
    if not type.dtype.has_numpy:
        raise Unconvertible(f"'{record.name}' holds {type.dtype.value} values")
    stored = stored_array(record, files)
    if record.element == Element.BFLOAT16:
        stored = (stored.astype(np.uint32) << 16).view(np.float32)
    elif record.element in _PACKED:
        stored = _unpack(stored, Element(record.element), math.prod(record.shape))
    if stored.size != math.prod(record.shape):
        raise ValueError(f"it has {stored.size} elements, which do not fill {list(record.shape)}")
    return stored.reshape(record.shape).astype(type.dtype.numpy, copy=False)


def stored_array(record: TensorRecord, files: ExternalFiles) -> np.ndarray:
    """Return the data as a flat array in the file's element type."""
    message, element = record.message, Element(record.element)
    if is_external(record):
        entries = read_entries(message.messages(TensorField.EXTERNAL))
        return _from_bytes(files.data(entries), element)
    raw = message.block(TensorField.RAW)
    if raw is not None:
        return _from_bytes(raw, element)
    return _from_fields(message, element)


def _from_bytes(data: memoryview, element: Element) -> np.ndarray:
    kind = _raw_dtype(element)
    if len(data) % kind.itemsize:
        raise ValueError(f"{len(data)} bytes do not hold {kind.itemsize}-byte elements")
    array = np.frombuffer(data, kind)
    return array != 0 if element is Element.BOOL else array


def _raw_dtype(element: Element) -> np.dtype:
    if element is Element.BFLOAT16:
        return np.dtype("<u2")
    if element in _PACKED or element is Element.BOOL:
        return np.dtype(np.uint8)
    return STORED[element].numpy.newbyteorder("<")


def _from_fields(message: Message, element: Element) -> np.ndarray:
    """Return data from the typed lists of the schema; small types are stored in the int32 list."""
    if element is Element.FLOAT:
        return message.floats(TensorField.FLOATS)
    if element is Element.DOUBLE:
        return message.doubles(TensorField.DOUBLES)
    if element is Element.INT64:
        return message.integers(TensorField.LONGS)
    if element is Element.COMPLEX64:
        return _pairs(message.floats(TensorField.FLOATS), np.dtype("<c8"))
    if element is Element.COMPLEX128:
        return _pairs(message.doubles(TensorField.DOUBLES), np.dtype("<c16"))
    if element in (Element.UINT32, Element.UINT64):
        return message.integers(TensorField.UNSIGNED).astype(STORED[element].numpy)
    return _from_integers(message.integers(TensorField.INTEGERS), element)


def _pairs(numbers: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return complex numbers, which the file stores as pairs of real ones."""
    return np.ascontiguousarray(numbers[: numbers.size // 2 * 2]).view(dtype)


def _from_integers(numbers: np.ndarray, element: Element) -> np.ndarray:
    assert element in _IN_INTEGERS, element
    if element is Element.FLOAT16:
        return numbers.astype(np.uint16).view(np.float16)
    if element is Element.BFLOAT16:
        return numbers.astype(np.uint16)
    if element in _PACKED:
        return numbers.astype(np.uint8)
    return numbers.astype(STORED[element].numpy)


def _unpack(octets: np.ndarray, element: Element, count: int) -> np.ndarray:
    """Unpack 4-bit numbers, lower half of each byte first."""
    if octets.size != -(-count // 2):
        raise ValueError(f"{octets.size} bytes do not hold {count} 4-bit numbers")
    nibbles = np.stack([octets & 15, octets >> 4], axis=-1).reshape(-1)[:count]
    if element is Element.UINT4:
        return nibbles
    return (nibbles ^ 8).astype(np.int8) - np.int8(8)


def no_arrays(name: str, dtype: DType) -> str:
    return f"'{name}' holds {dtype.value} values, which are not supported"
