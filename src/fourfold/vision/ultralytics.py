"""Metadata that Ultralytics writes into exported models: task, names, key point shape."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from fourfold.graph.metadata import ModelMetadata

NAMES, TASK, POINT_SHAPE, POINT_NAMES = "names", "task", "kpt_shape", "kpt_names"
CLASSIFY, SEMANTIC, ORIENTED = "classify", "semantic", "obb"
MAX_TEXT_CHARS = 2**20  # longer dictionaries are not parsed


class ExportNotes(NamedTuple):
    """Metadata of an Ultralytics export.

    Attributes:
        names: Class names.
        task: 'detect', 'segment', 'pose', 'obb', 'classify', 'semantic', or '' if unknown.
        point_shape: Key points per object, and numbers per point.
        point_names: Names of the key points.
    """

    names: tuple[str, ...] = ()
    task: str = ""
    point_shape: tuple[int, int] | None = None
    point_names: tuple[str, ...] = ()


def read_export_notes(metadata: ModelMetadata) -> ExportNotes:
    """Return the Ultralytics metadata of a model, empty if it has none.

    They are properties of an ONNX file, a JSON file appended to a TFLite file, or a dictionary in
    place of a label file.
    """
    properties: Mapping[str, Any] = metadata.properties
    if NAMES not in properties:
        labels = (one.texts for tensor in metadata.outputs for one in tensor.labels)
        written = (_value(texts[0]) for texts in labels if len(texts) == 1)
        first = next((one for one in written if one is not None), None)
        properties = first if isinstance(first, Mapping) and NAMES in first else {NAMES: first}
    names = _texts(_value(properties[NAMES]))
    if not names:
        return ExportNotes()
    shape = _value(properties.get(POINT_SHAPE, ""))
    return ExportNotes(names, str(properties.get(TASK, "")), _pair(shape), _point_names(properties))


def _value(text: Any) -> Any:
    """Parse a text. Other values are returned unchanged."""
    return _parse(text) if isinstance(text, str) else text


@lru_cache(maxsize=8)  # every frame of a video parses the same texts
def _parse(text: str) -> Any:
    if not text.startswith(("{", "[", "(")) or len(text) > MAX_TEXT_CHARS:
        return None
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None


def _texts(names: Any) -> tuple[str, ...]:
    """Convert a list, or a dictionary by number (JSON has the numbers as texts)."""
    if isinstance(names, Mapping):
        numbered = {str(key): one for key, one in names.items()}
        names = [numbered.get(str(number)) for number in range(len(numbered))]
    if isinstance(names, str) or not isinstance(names, Sequence) or None in names:
        return ()
    return tuple(map(str, names))


def _pair(shape: Any) -> tuple[int, int] | None:
    if not isinstance(shape, Sequence) or len(shape) != 2:
        return None
    count, numbers = shape
    valid = isinstance(count, int) and count > 0 and numbers in (2, 3)
    return (count, numbers) if valid else None


def _point_names(properties: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the key point names of the first class. All classes have the same number."""
    by_class = _value(properties.get(POINT_NAMES, ""))
    first = next(iter(by_class.values()), ()) if isinstance(by_class, Mapping) else ()
    return tuple(name.replace("_", " ") for name in _texts(first))
