"""Labels of classes: from a caller's file, or as Ultralytics' exports carry them."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fourfold.errors import InputError

if TYPE_CHECKING:
    from fourfold.metadata import ModelMetadata

NAMES = "names"
MOST_TEXT = 2**20  # characters of a dictionary that is read


def read_labels(path: str | Path) -> tuple[str, ...]:
    """A label a line; empty lines at the end do not count."""
    try:
        lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        what, fix = f"labels cannot be read from {path}", "pass a text file with a label a line"
        raise InputError(what, str(error), fix) from error
    while lines and not lines[-1].strip():
        lines.pop()
    if not lines:
        what, why = f"there are no labels in {path}", "it has no lines"
        raise InputError(what, why, "pass a text file with a label a line")
    return tuple(line.strip() for line in lines)


def own_names(metadata: ModelMetadata) -> tuple[str, ...]:
    """Names of classes that the model has for all of its outputs, as Ultralytics' files do: a
    dictionary as text, among the properties or in place of a file of labels.
    """
    texts = [metadata.properties.get(NAMES, "")]
    for tensor in metadata.outputs:
        texts += [one.texts[0] for one in tensor.labels if len(one.texts) == 1]
    return next((found for text in texts if (found := _parse(text))), ())


def _parse(text: str) -> tuple[str, ...]:
    if not text.startswith(("{", "[")) or len(text) > MOST_TEXT:
        return ()
    try:
        found = ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return ()
    if isinstance(found, Mapping) and NAMES in found:
        found = found[NAMES]
    if isinstance(found, Mapping) and sorted(found) == list(range(len(found))):
        found = [found[number] for number in range(len(found))]
    return tuple(map(str, found)) if isinstance(found, Sequence) else ()
