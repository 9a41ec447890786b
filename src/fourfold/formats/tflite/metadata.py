"""Reads TFLite metadata: a flatbuffer inside the file, and files in an archive appended to it.

Metadata that cannot be read is reported as a problem with a reason, never as an error.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import partial
from itertools import islice
from math import inf
from typing import TypeVar

import numpy as np

from fourfold.formats.appended_files import MAX_FILE_BYTES, MAX_FILES, AppendedFiles
from fourfold.formats.names import printable, short_properties
from fourfold.formats.source import Content
from fourfold.formats.tflite.flatbuffer import FlatBuffer, Table
from fourfold.formats.tflite.records import FileRecord
from fourfold.graph.metadata import (
    AXIS,
    VALUE,
    VOCABULARY,
    AssociatedFile,
    Labels,
    ModelMetadata,
    Normalization,
    ScoreCalibration,
    TensorMetadata,
)
from fourfold.support.display import visible

BUFFER, IDENTIFIER = "TFLITE_METADATA", b"M001"
NOTES = "metadata.json"  # written by Ultralytics exporters
MAX_UNITS, MAX_CHANNELS, MAX_DIMENSIONS, MAX_LABELS = 64, 4096, 16, 2**17
MAX_PROPERTY_BYTES = 256  # size of a buffer that is read as text
_DAMAGE = (ValueError, TypeError, LookupError, ArithmeticError, struct.error, RecursionError)

# In the order of their numbers in the schema.
FILES = ("", "descriptions", AXIS, VALUE, "score calibration", VOCABULARY, "index")
CONTENTS = ("", "features", "image", "bounding boxes", "audio")
COLORS = ("", "rgb", "gray")
BOXES = ("", "left top right bottom", "left top width height", "center width height")
COORDINATES = ("from 0 to 1", "pixels")
TRANSFORMS = ("identity", "log", "inverse logistic")
_TITLES = {AXIS: "labels", VALUE: "labels of values"}

Item = TypeVar("Item")


class Unit(IntEnum):
    """A processing step before or after a model."""

    NORMALIZATION = 1
    CALIBRATION = 2
    THRESHOLD = 3
    BERT = 4
    SENTENCE_PIECE = 5
    REGEX = 6


# Slots of tokenizer steps that name files.
_VOCABULARIES: dict[int, tuple[int, ...]] = {
    Unit.BERT: (0,),
    Unit.SENTENCE_PIECE: (0, 1),
    Unit.REGEX: (1,),
}


@dataclass(frozen=True)
class EndTensors:
    """The inputs and outputs that a caller sees, by their positions in the graph's."""

    subgraph: int
    inputs: Sequence[int]
    outputs: Sequence[int]


def read_metadata(file: FileRecord, content: Content, ends: EndTensors) -> ModelMetadata:
    """Read the metadata of the model for these inputs and outputs."""
    reading = _Reading()
    files = reading.attempt("its files", lambda: AppendedFiles.find(content), reading.files)
    reading.files = files
    empty: Mapping[str, str] = {}
    notes = reading.attempt(NOTES, lambda: _notes(files), empty)
    plain = ModelMetadata(properties={**_properties(file), **notes})
    buffer = file.metadata.get(BUFFER)
    if buffer is not None:
        metadata = reading.attempt(
            "its metadata", lambda: reading.model(_sound(buffer), ends), plain
        )
        plain = replace(metadata, properties={**plain.properties, **metadata.properties})
    return replace(plain, problems=tuple(reading.problems))


def _notes(files: AppendedFiles) -> Mapping[str, str]:
    """Return the properties in an appended JSON file; values other than strings as JSON."""
    if NOTES not in files.members:
        return {}
    content = json.loads(files.read(NOTES))
    if not isinstance(content, dict):
        raise ValueError("it is not a JSON object")
    return short_properties(
        {name: one if isinstance(one, str) else json.dumps(one) for name, one in content.items()}
    )


def _sound(data: np.ndarray) -> bytes:
    if data.size > MAX_FILE_BYTES:
        raise ValueError(f"it has {data.size} bytes; the limit is {MAX_FILE_BYTES}")
    content = data.tobytes()
    if content[4:8] != IDENTIFIER:
        raise ValueError(f"its identifier {content[4:8]!r} is not supported")
    return content


def _properties(file: FileRecord) -> Mapping[str, str]:
    """Return the text properties that the file has outside its metadata."""
    properties = {"file description": printable(file.description)} if file.description else {}
    for name, data in islice(file.metadata.items(), MAX_UNITS):
        text = data[:MAX_PROPERTY_BYTES].tobytes().rstrip(b"\0")
        if name != BUFFER and text and data.size <= MAX_PROPERTY_BYTES and _is_word(text):
            properties[printable(name)] = text.decode("ascii")
    return properties


def _is_word(text: bytes) -> bool:
    return text.isascii() and text.decode("ascii").isprintable()


@dataclass
class _Reading:
    """Reads one model's metadata and records problems."""

    problems: list[str] = field(default_factory=list)
    files: AppendedFiles = field(default_factory=lambda: AppendedFiles(b"", {}))

    def attempt(self, what: str, read: Callable[[], Item], otherwise: Item) -> Item:
        try:
            return read()
        except _DAMAGE as error:
            if len(self.problems) < MAX_UNITS:
                why = str(error) or type(error).__name__
                self.problems.append(printable(f"{what} cannot be read: {why}"))
            return otherwise

    def model(self, data: bytes, ends: EndTensors) -> ModelMetadata:
        root = Table.root(FlatBuffer(data))
        graphs = islice(root.tables(3), ends.subgraph, ends.subgraph + 1)
        graph = next(graphs, None)
        inputs, outputs = (
            () if graph is None else self.tensors(graph, slot, places)
            for slot, places in ((2, ends.inputs), (3, ends.outputs))
        )
        name, description, version, author, licence, minimum_version = (
            _text(root, slot) for slot in (0, 1, 2, 4, 5, 7)
        )
        return ModelMetadata(
            name=name,
            description=description or ("" if graph is None else _text(graph, 1)),
            version=version,
            author=author,
            licence=licence,
            inputs=inputs,
            outputs=outputs,
            files=(*self.named_files(root, 6), *(self.named_files(graph, 4) if graph else ())),
            properties={"metadata version": minimum_version} if minimum_version else {},
        )

    def tensors(
        self, graph: Table, slot: int, positions: Sequence[int]
    ) -> tuple[TensorMetadata, ...]:
        """Return the metadata of the tensors at these positions, in this order."""
        tables = list(islice(graph.tables(slot), max(positions, default=-1) + 1))
        by_position = {at: tables[at] for at in positions if at < len(tables)}
        title = "the metadata of a tensor"
        return tuple(
            self.attempt(title, partial(self.tensor, by_position.get(at)), TensorMetadata())
            for at in positions
        )

    def tensor(self, table: Table | None) -> TensorMetadata:
        if table is None:
            return TensorMetadata()
        content, stats = table.table(3), table.table(5)
        files = self.named_files(table, 6)
        metadata = TensorMetadata(
            name=_text(table, 0),
            description=_text(table, 1),
            dimensions=tuple(_texts(table, 2)),
            minimum=() if stats is None else _numbers(stats, 1),
            maximum=() if stats is None else _numbers(stats, 0),
            files=files,
            labels=tuple(self.labels(files)),
        )
        metadata = metadata if content is None else _with_content(metadata, content)
        for unit in islice(table.tables(4), MAX_UNITS):
            metadata = self.processed(metadata, unit)
        return metadata

    def processed(self, tensor: TensorMetadata, unit: Table) -> TensorMetadata:
        """Return the tensor with the metadata of a processing step."""
        kind, options = unit.scalar(0, "B"), unit.table(1)
        if options is None:
            return tensor
        if kind == Unit.NORMALIZATION:
            numbers = Normalization(_numbers(options, 0), _numbers(options, 1))
            return replace(tensor, normalization=numbers)
        if kind == Unit.THRESHOLD:
            return replace(tensor, threshold=_number(options, 0))
        if kind == Unit.CALIBRATION:
            transform = _name(TRANSFORMS, options.scalar(0, "b"))
            calibration = ScoreCalibration(transform, _number(options, 1), self.curves(tensor))
            return replace(tensor, calibration=calibration)
        slots = _VOCABULARIES.get(kind, ())
        files = tuple(one for slot in slots for one in self.named_files(options, slot))
        labels = (*tensor.labels, *self.labels(files))
        return replace(tensor, files=(*tensor.files, *files), labels=labels)

    def named_files(self, table: Table, slot: int) -> tuple[AssociatedFile, ...]:
        return tuple(self.named_file(one) for one in islice(table.tables(slot), MAX_FILES))

    def named_file(self, table: Table) -> AssociatedFile:
        name = table.text(0)
        description, locale, version = (_text(table, slot) for slot in (1, 3, 4))
        kind = _name(FILES, table.scalar(2, "b"))
        return AssociatedFile(
            printable(name), kind, description, locale, version, self.files.size(name)
        )

    def labels(self, files: Iterable[AssociatedFile]) -> Iterator[Labels]:
        for file in files:
            if file.kind in (AXIS, VALUE, VOCABULARY):
                lines = self.lines(file)
                if lines:
                    yield Labels(lines, file.kind, file.locale, file.name)

    def lines(self, file: AssociatedFile) -> tuple[str, ...]:
        title = f"the {_TITLES.get(file.kind, file.kind)} in '{file.name}'"
        return self.attempt(title, lambda: _lines(self.files.read(file.name)), ())

    def curves(self, tensor: TensorMetadata) -> tuple[tuple[float, ...], ...]:
        for file in tensor.files:
            if file.kind == "score calibration":
                title = f"the {file.kind} in '{file.name}'"
                lines = self.lines(file)
                return self.attempt(title, partial(_curves, lines), ())
        return ()


def _with_content(tensor: TensorMetadata, table: Table) -> TensorMetadata:
    """Return the tensor with the metadata of its content."""
    content, details = _name(CONTENTS, table.scalar(0, "B")), table.table(1)
    if details is None:
        return replace(tensor, content=content)
    properties: dict[str, str] = {}
    if content == "image" and details.has(1):
        size = details.table(1)
        sizes = [0, 0] if size is None else [size.scalar(1, "I"), size.scalar(0, "I")]
        properties["default size"] = " x ".join(map(str, sizes))
    elif content == "audio":
        properties["sample rate"] = str(details.scalar(0, "I"))
        properties["channels"] = str(details.scalar(1, "I"))
    elif content == "bounding boxes":
        order = details.vector(0, np.uint32)[:MAX_DIMENSIONS].tolist()
        properties["corners"] = _name(BOXES, details.scalar(1, "b"))
        properties["coordinates"] = _name(COORDINATES, details.scalar(2, "b"))
        properties["order"] = " ".join(map(str, order))
    color = _name(COLORS, details.scalar(0, "b")) if content == "image" else ""
    nonempty = {name: text for name, text in properties.items() if text}
    return replace(tensor, content=content, color=color, properties=nonempty)


def _name(names: Sequence[str], number: int) -> str:
    """Return the name of a number in the schema; '' for one that is newer than this reader."""
    return names[number] if 0 <= number < len(names) else ""


def _text(table: Table, slot: int) -> str:
    return printable(table.text(slot))


def _texts(table: Table, slot: int) -> Iterator[str]:
    for text in islice(table.texts(slot), MAX_DIMENSIONS):
        yield printable(text)


def _numbers(table: Table, slot: int) -> tuple[float, ...]:
    if table.vector(slot, np.float32).size > MAX_CHANNELS:
        raise ValueError(f"it has numbers for more than {MAX_CHANNELS} channels")
    return table.floats(slot)


def _number(table: Table, slot: int) -> float:
    return float(table.scalar(slot, "f"))


def _lines(data: bytes) -> tuple[str, ...]:
    """Return one label per line; empty lines count."""
    text = data.decode("utf-8-sig", "backslashreplace").replace("\r\n", "\n").removesuffix("\n")
    lines = visible(text).split("\n") if text else []
    if len(lines) > MAX_LABELS:
        raise ValueError(f"it has {len(lines)} lines; the limit is {MAX_LABELS}")
    return tuple(line.strip() for line in lines)


def _curves(lines: Iterable[str]) -> tuple[tuple[float, ...], ...]:
    return tuple(map(_curve, lines))


def _curve(line: str) -> tuple[float, ...]:
    """Return scale, slope, offset and minimum score; () for an empty line."""
    numbers = [float(part) for part in line.split(",")] if line else []
    if len(numbers) not in (0, 3, 4):
        raise ValueError(f"{line!r} has {len(numbers)} numbers, expected 3 or 4")
    return tuple(numbers if len(numbers) != 3 else [*numbers, -inf])
