"""What Ultralytics write into the models that they export: task, names, the shape of key points."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from fourfold.metadata import ModelMetadata

NAMES, TASK, POINT_SHAPE, POINT_NAMES = "names", "task", "kpt_shape", "kpt_names"
CLASSIFY, SEMANTIC, ORIENTED = "classify", "semantic", "obb"
MOST_TEXT = 2**20  # characters of a dictionary that is read


class ExportNotes(NamedTuple):
    """Names of the classes; what the model is for: 'detect', 'segment', 'pose', 'obb', 'classify',
    'semantic' or '', where that is not said; how many key points a thing has, with how many numbers
    each, and their names.
    """

    names: tuple[str, ...] = ()
    task: str = ""
    point_shape: tuple[int, int] | None = None
    point_names: tuple[str, ...] = ()


def read_export_notes(metadata: ModelMetadata) -> ExportNotes:
    """Those of a model, empty where it has none. They are properties of an ONNX file, of a file of
    JSON behind a TFLite file, or a dictionary in place of a file of labels.
    """
    found: Mapping[str, Any] = metadata.properties
    if NAMES not in found:
        labels = (one.texts for tensor in metadata.outputs for one in tensor.labels)
        written = (_value(texts[0]) for texts in labels if len(texts) == 1)
        first = next((one for one in written if one is not None), None)
        found = first if isinstance(first, Mapping) and NAMES in first else {NAMES: first}
    names = _texts(_value(found[NAMES]))
    if not names:
        return ExportNotes()
    shape = _value(found.get(POINT_SHAPE, ""))
    return ExportNotes(names, str(found.get(TASK, "")), _pair(shape), _point_names(found))


def _value(text: Any) -> Any:
    """What a text writes; what is no text as it is."""
    return _parse(text) if isinstance(text, str) else text


@lru_cache(maxsize=8)  # each frame of a video asks for the same
def _parse(text: str) -> Any:
    if not text.startswith(("{", "[", "(")) or len(text) > MOST_TEXT:
        return None
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None


def _texts(found: Any) -> tuple[str, ...]:
    """A list, or a dictionary by numbers: JSON has these as texts."""
    if isinstance(found, Mapping):
        numbered = {str(key): one for key, one in found.items()}
        found = [numbered.get(str(number)) for number in range(len(numbered))]
    if isinstance(found, str) or not isinstance(found, Sequence) or None in found:
        return ()
    return tuple(map(str, found))


def _pair(found: Any) -> tuple[int, int] | None:
    if not isinstance(found, Sequence) or len(found) != 2:
        return None
    count, numbers = found
    known = isinstance(count, int) and count > 0 and numbers in (2, 3)
    return (count, numbers) if known else None


def _point_names(found: Mapping[str, Any]) -> tuple[str, ...]:
    """Those of the first class: others have as many."""
    by_class = _value(found.get(POINT_NAMES, ""))
    first = next(iter(by_class.values()), ()) if isinstance(by_class, Mapping) else ()
    return tuple(name.replace("_", " ") for name in _texts(first))
