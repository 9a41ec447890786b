"""The `postprocess=` option of a session: validation, and conversion to and from text.

An option's text is its name and the fields that differ from their defaults:
'yolo:score=0.4,most=10'. Values are written as in JSON. The name of an output may come first:
'scores=topk:count=5'.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from fourfold.errors import InputError, nearest
from fourfold.processing.anchors import SsdAnchors
from fourfold.processing.boxes import (
    DecodedBoxes,
    MediaPipeBoxes,
    SsdBoxes,
    YoloBoxes,
    YoloHeads,
)
from fourfold.processing.classes import ArgMax, Softmax, TopK

try:
    from _blake2 import blake2b  # hashlib would load OpenSSL, which takes milliseconds
except ImportError:
    from hashlib import blake2b


Processing = (
    TopK | ArgMax | Softmax | YoloBoxes | YoloHeads | SsdBoxes | MediaPipeBoxes | DecodedBoxes
)
PostprocessOption = Processing | Mapping[str, Processing]  # for the model, or by output name
NAMES: Mapping[str, type[Processing]] = {
    "topk": TopK,
    "argmax": ArgMax,
    "softmax": Softmax,
    "yolo": YoloBoxes,
    "yolo-heads": YoloHeads,
    "ssd": SsdBoxes,
    "mediapipe": MediaPipeBoxes,
    "boxes": DecodedBoxes,
}
_KINDS = tuple(NAMES.values())
_TITLES = {kind: name for name, kind in NAMES.items()}
# Name of an output (any characters), name of an option, and its fields.
_TEXT = re.compile(rf"(?:(.+?)=)??({'|'.join(NAMES)})(?::(.*))?")
_MAX_VALUE_CHARS = 200  # longer lists of numbers are replaced by their digest


def checked_postprocess(option: object) -> PostprocessOption | None:
    """Return the option if it is valid, or None if it is empty. Raises InputError otherwise."""
    named = option if isinstance(option, Mapping) else {"": option}
    for name, one in named.items():
        if not isinstance(one, _KINDS) and option is not None:
            what = f"postprocess{f' of {name!r}' if name else ''} is {one!r}"
            why = f"it must be one of {', '.join(kind.__name__ for kind in _KINDS)}"
            fix = "from fourfold import processing; pass processing.TopK(5), or a dict by output"
            raise InputError(what, why, fix)
    return option or None  # type: ignore[return-value]


def postprocess_text(option: PostprocessOption | None) -> str:
    """Return an option as text, for cache keys and messages."""
    if option is None:
        return ""
    if isinstance(option, Mapping):
        return "; ".join(f"{name}={processing_text(one)}" for name, one in sorted(option.items()))
    return processing_text(option)


def processing_text(option: Processing) -> str:
    changed = _changed(option)
    texts = ",".join(f"{name}={_value_text(value)}" for name, value in changed.items())
    return _TITLES[type(option)] + (f":{texts}" if texts else "")


def _changed(option: object) -> dict[str, Any]:
    """Return the fields that differ from their defaults."""
    values = {one.name: (getattr(option, one.name), one.default) for one in fields(option)}  # type: ignore[arg-type]
    return {name: value for name, (value, default) in values.items() if value != default}


def _value_text(value: object) -> str:
    if isinstance(value, str):
        return value
    if is_dataclass(value):
        value = _changed(value)
    text = json.dumps(value, separators=(",", ":"))
    if len(text) <= _MAX_VALUE_CHARS:
        return text
    return blake2b(text.encode(), digest_size=16).hexdigest()


def parse_postprocess(texts: tuple[str, ...]) -> PostprocessOption | None:
    """Parse texts in the form of `processing_text`: one for the model, or one per output."""
    options = [_parse(text) for text in texts]
    if not options:
        return None
    named = {name: option for name, option in options if name}
    if len(options) == 1 and not named:
        return options[0][1]
    if len(named) != len(options):
        raise InputError(
            f"{len(options)} post-processing options were passed",
            "each of several options needs the name of its output",
            "write each as OUTPUT=topk:count=5",
        )
    return named


def _parse(text: str) -> tuple[str, Processing]:
    match = _TEXT.fullmatch(text)
    if match is None:
        name = text.partition(":")[0].rpartition("=")[2]
        what = f"there is no post-processing option {name!r}"
        raise InputError(what, f"options are {', '.join(NAMES)}", nearest(name, NAMES))
    output, name, settings = (part or "" for part in match.groups())
    items = (item.partition("=") for item in re.split(r",(?=\w+=)", settings) if settings)
    values = {field: _parse_value(value) for field, _, value in items}
    if "anchors" in values and NAMES[name] is SsdBoxes:
        values["anchors"] = _anchors(values["anchors"])
    option: Processing = _make(name, NAMES[name], values)
    return output, option


def _make(title: str, kind: Any, values: Mapping[str, Any]) -> Any:
    names = [one.name for one in fields(kind)]
    for name in values:
        if name not in names:
            what = f"{title} has no field {name!r}"
            raise InputError(what, f"its fields are {', '.join(names)}", nearest(name, names))
    return kind(**values)


def _anchors(anchors: Any) -> Any:
    """Return rows of anchors, from numbers, a .npy file, or the fields of `SsdAnchors`."""
    if isinstance(anchors, Mapping):
        return _make("anchors", SsdAnchors, anchors)
    if not isinstance(anchors, str):
        return anchors
    try:
        return np.load(anchors, allow_pickle=False)
    except (OSError, ValueError) as error:
        what, fix = f"anchors cannot be read from {anchors!r}", "pass the path of a .npy file"
        raise InputError(what, str(error), fix) from error


def _parse_value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
