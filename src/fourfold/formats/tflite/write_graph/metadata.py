"""Writes TFLite metadata, which `formats/tflite/metadata.py` reads."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isinf
from typing import TYPE_CHECKING

import flatbuffers
import numpy as np

from fourfold.formats.tflite.metadata import (
    BOXES,
    COLORS,
    CONTENTS,
    COORDINATES,
    FILES,
    IDENTIFIER,
    TRANSFORMS,
    Unit,
)
from fourfold.graph.metadata import ModelMetadata, ScoreCalibration, TensorMetadata
from fourfold.support.lazy import lazy_import

if TYPE_CHECKING:
    import zipfile
else:
    zipfile = lazy_import("zipfile")

CALIBRATION = "score calibration"
# Minimum schema version; everything written here has always been in it.
_MIN_SCHEMA_VERSION = "1.0.0"

Fill = Callable[[flatbuffers.Builder], object]


@dataclass(frozen=True)
class WrittenMetadata:
    """A metadata flatbuffer, and the files to append to the model."""

    content: bytes
    files: Mapping[str, bytes]

    def append_files(self, model: bytes) -> bytes:
        """Return the model with its files appended.

        Offsets count from the start of the whole file, as TensorFlow writes them.
        """
        if not self.files:
            return model
        combined = io.BytesIO(model)
        with zipfile.ZipFile(combined, "a") as archive:
            for name, content in self.files.items():
                # No timestamps, so that the same model gives the same bytes.
                archive.writestr(zipfile.ZipInfo(name), content)
        return combined.getvalue()


def write_metadata(metadata: ModelMetadata) -> WrittenMetadata | None:
    """Serialize the metadata of a model and its tensors; None if there is none."""
    if metadata == ModelMetadata(properties=metadata.properties, problems=metadata.problems):
        return None
    writer = _Writer()
    content = writer.model(metadata)
    return WrittenMetadata(content, writer.files)


@dataclass
class _Writer:
    builder: flatbuffers.Builder = field(default_factory=lambda: flatbuffers.Builder(1024))
    files: dict[str, bytes] = field(default_factory=dict)

    def model(self, metadata: ModelMetadata) -> bytes:
        tensors = [
            self.tables(map(self.tensor, described))
            for described in (metadata.inputs, metadata.outputs)
        ]
        graph = self.table({2: tensors[0], 3: tensors[1]})
        texts = {
            0: metadata.name,
            1: metadata.description,
            2: metadata.version,
            4: metadata.author,
            5: metadata.licence,
            7: _MIN_SCHEMA_VERSION,
        }
        root = self.table({**self.texts(texts), 3: self.tables([graph])})
        self.builder.Finish(root, file_identifier=IDENTIFIER)
        return bytes(self.builder.Output())

    def tensor(self, tensor: TensorMetadata) -> int:
        offsets = self.texts({0: tensor.name, 1: tensor.description})
        if tensor.dimensions:
            names = [self.builder.CreateString(name) for name in tensor.dimensions]
            offsets[2] = self.tables(names)
        if tensor.content:
            offsets[3] = self.content(tensor)
        offsets[4] = self.tables([*self.units(tensor)])
        if tensor.minimum or tensor.maximum:
            numbers = {0: self.numbers(tensor.maximum), 1: self.numbers(tensor.minimum)}
            offsets[5] = self.table(numbers)
        offsets[6] = self.tables([*self.labels(tensor), *self.curves(tensor.calibration)])
        return self.table(offsets)

    def units(self, tensor: TensorMetadata) -> Iterator[int]:
        """Yield the processing steps before and after the model."""
        scaled, calibration, minimum = tensor.normalization, tensor.calibration, tensor.threshold
        if scaled is not None:
            numbers = {0: self.numbers(scaled.mean), 1: self.numbers(scaled.std)}
            yield self.union(Unit.NORMALIZATION, self.table(numbers))
        if calibration is not None:
            number, default = _number(TRANSFORMS, calibration.transform), calibration.default
            options = self.table(
                {}, lambda b: (b.PrependInt8Slot(0, number, 0), b.PrependFloat32Slot(1, default, 0))
            )
            yield self.union(Unit.CALIBRATION, options)
        if minimum is not None:
            options = self.table({}, lambda b: b.PrependFloat32Slot(0, minimum, 0))
            yield self.union(Unit.THRESHOLD, options)

    def content(self, tensor: TensorMetadata) -> int:
        about, color = tensor.properties, _number(COLORS, tensor.color)
        if tensor.content == "audio":
            rate, channels = (_integer(about.get(name)) for name in ("sample rate", "channels"))
            details = self.table(
                {}, lambda b: (b.PrependUint32Slot(0, rate, 0), b.PrependUint32Slot(1, channels, 0))
            )
        elif tensor.content == "bounding boxes":
            corners = _number(BOXES, about.get("corners", ""))
            unit = _number(COORDINATES, about.get("coordinates", ""))
            order = [_integer(one) for one in about.get("order", "").split()]
            details = self.table(
                {0: self.numbers(order, "uint32")},
                lambda b: (b.PrependInt8Slot(1, corners, 0), b.PrependInt8Slot(2, unit, 0)),
            )
        else:
            details = self.table({}, lambda b: b.PrependInt8Slot(0, color, 0))
        return self.union(_number(CONTENTS, tensor.content), details)

    def labels(self, tensor: TensorMetadata) -> Iterator[int]:
        described = {file.name: file.description for file in tensor.files}
        for labels in tensor.labels:
            content = "\n".join(labels.texts).encode()
            name = self.file(labels.file or "labels.txt", content)
            texts = {0: name, 1: described.get(labels.file, ""), 3: labels.locale}
            yield self.file_table(texts, labels.kind)

    def curves(self, calibration: ScoreCalibration | None) -> Iterator[int]:
        if calibration is not None and calibration.curves:
            lines = "".join(f"{_line(curve)}\n" for curve in calibration.curves)
            name = self.file("score_calibration.txt", lines.encode())
            yield self.file_table({0: name}, CALIBRATION)

    def file(self, name: str, content: bytes) -> str:
        """Add a file to append; equal content is shared, other content gets another name."""
        stem, dot, ending = name.rpartition(".")
        numbered = (f"{stem}_{number}{dot}{ending}" for number in range(2, len(self.files) + 3))
        for choice in (name, *numbered):
            if self.files.setdefault(choice, content) == content:
                return choice
        raise AssertionError("there are more names than files")

    def file_table(self, texts: Mapping[int, str], kind: str) -> int:
        number = _number(FILES, kind)
        return self.table(self.texts(texts), lambda b: b.PrependInt8Slot(2, number, 0))

    def union(self, kind: int, offset: int) -> int:
        """Return a union table with its kind."""
        return self.table({1: offset}, lambda b: b.PrependUint8Slot(0, kind, 0))

    def table(self, offsets: Mapping[int, int], fill: Fill = lambda builder: None) -> int:
        self.builder.StartObject(8)
        for slot, offset in offsets.items():
            self.builder.PrependUOffsetTRelativeSlot(slot, offset, 0)
        fill(self.builder)
        return int(self.builder.EndObject())

    def tables(self, offsets: Iterable[int]) -> int:
        items = list(offsets)
        self.builder.StartVector(4, len(items), 4)
        for offset in reversed(items):
            self.builder.PrependUOffsetTRelative(offset)
        return int(self.builder.EndVector())

    def texts(self, texts: Mapping[int, str]) -> dict[int, int]:
        return {slot: self.builder.CreateString(text) for slot, text in texts.items() if text}

    def numbers(self, numbers: Sequence[float], dtype: str = "float32") -> int:
        return int(self.builder.CreateNumpyVector(np.asarray(numbers, dtype)))


def _number(names: Sequence[str], name: str) -> int:
    """Return a word's number in the schema; 0 if it is not in it."""
    return names.index(name) if name in names else 0


def _integer(text: str | None) -> int:
    return int(text) if text is not None and text.isdecimal() else 0


def _line(curve: Sequence[float]) -> str:
    """Return scale, slope, offset, and the minimum score if there is one."""
    return ",".join(repr(one) for one in curve if not isinf(one))
