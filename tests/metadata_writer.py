"""Writes the metadata of TFLite files, and the archive that goes with them. For tests alone.

    metadata = model(name="cats", outputs=[tensor("probability", labels=["labels.txt"])])
    data = with_metadata(write(...), metadata, {"labels.txt": b"cat\\ndog\\n"})

A table is a dict of its fields by their slot: a str, a float, a Byte or an int of 32 bits, another
table, or a list of one of these.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import flatbuffers
import numpy as np

Table = dict[int, Any]
AXIS_LABELS, VALUE_LABELS, CALIBRATION, VOCABULARY = 2, 3, 4, 5
IMAGE, BOXES, AUDIO = 2, 3, 4
NORMALIZATION, SCORE_CALIBRATION, THRESHOLD, BERT, REGEX = 1, 2, 3, 4, 6


@dataclass(frozen=True)
class Byte:
    """A number of one byte."""

    value: int


def flatbuffer(root: Table, identifier: bytes = b"M001") -> bytes:
    builder = flatbuffers.Builder(256)
    builder.Finish(_table(builder, root), file_identifier=identifier)
    return bytes(builder.Output())


def _table(builder: Any, fields: Table) -> int:
    there = {slot: _part(builder, value) for slot, value in fields.items()}
    builder.StartObject(max(fields, default=-1) + 1)
    for slot, (kind, value) in there.items():
        getattr(builder, f"Prepend{kind}Slot")(
            slot, value, None if kind != "UOffsetTRelative" else 0
        )
    return int(builder.EndObject())


def _part(builder: Any, value: Any) -> tuple[str, Any]:
    if isinstance(value, Byte):
        return "Uint8", value.value
    if isinstance(value, int):
        return "Uint32", value
    if isinstance(value, float):
        return "Float32", value
    return "UOffsetTRelative", _offset(builder, value)


def _offset(builder: Any, value: Any) -> int:
    if isinstance(value, str):
        return int(builder.CreateString(value))
    if isinstance(value, dict):
        return _table(builder, value)
    if value and isinstance(value[0], float | int):
        kind = np.float32 if isinstance(value[0], float) else np.uint32
        return int(builder.CreateNumpyVector(np.array(value, kind)))
    offsets = [_offset(builder, one) for one in value]
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return int(builder.EndVector())


def file(name: str, kind: int, locale: str = "") -> Table:
    return {0: name, 1: f"what {name} holds", 2: Byte(kind), 3: locale}


def unit(kind: int, options: Table) -> Table:
    """Return a processing step before or after the model."""
    return {0: Byte(kind), 1: options}


def image(color: int = 1) -> Table:
    return {0: Byte(IMAGE), 1: {0: Byte(color)}}


def tensor(name: str, **fields: Any) -> Table:
    """Return the metadata of a tensor; the fields are those of `SLOTS`."""
    return {0: name, **{SLOTS[key]: value for key, value in fields.items()}}


SLOTS = {"description": 1, "dimensions": 2, "content": 3, "units": 4, "stats": 5, "files": 6}


def model(name: str, inputs: Sequence[Table] = (), outputs: Sequence[Table] = ()) -> Table:
    """Return the metadata of a model of one graph."""
    return {
        0: name,
        1: f"all about {name}",
        2: "v2",
        3: [{0: "main", 2: list(inputs), 3: list(outputs)}],
        4: "the author",
        5: "a licence",
    }


def archive(files: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", method) as result:
        for name, data in files.items():
            result.writestr(name, data)
    return content.getvalue()
