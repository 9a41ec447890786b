"""Post-processing as an option of a session: what may be passed, and its form as text.

As text an option is its name and what is not as usual: 'yolo:score=0.4,most=10'. Numbers, lists,
true and false are written as in JSON; a name of an output comes first: 'scores=topk:count=5'.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

try:
    from _blake2 import blake2b  # hashlib's own; hashlib itself loads OpenSSL, for milliseconds
except ImportError:
    from hashlib import blake2b

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

Processing = (
    TopK | ArgMax | Softmax | YoloBoxes | YoloHeads | SsdBoxes | MediaPipeBoxes | DecodedBoxes
)
PostprocessOption = Processing | Mapping[str, Processing]  # for the model, or by its outputs
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
# An output, whose name may have any sign in it; the name of an option; what is said of that.
_TEXT = re.compile(rf"(?:(.+?)=)??({'|'.join(NAMES)})(?::(.*))?")
_LONGEST = 200  # characters of a list of numbers; longer ones are told by their digest


def checked_postprocess(given: object) -> PostprocessOption | None:
    """What a caller passed, if it says what is to be made of outputs."""
    named = given if isinstance(given, Mapping) else {"": given}
    for name, one in named.items():
        if not isinstance(one, _KINDS) and given is not None:
            what = f"postprocess{f' of {name!r}' if name else ''} is {one!r}"
            why = f"it is one of {', '.join(kind.__name__ for kind in _KINDS)}"
            fix = "from fourfold import processing; pass processing.TopK(5), or a dict by output"
            raise InputError(what, why, fix)
    return given or None  # type: ignore[return-value]


def postprocess_text(given: PostprocessOption | None) -> str:
    """The same in words, for keys and for people."""
    if given is None:
        return ""
    if isinstance(given, Mapping):
        return "; ".join(f"{name}={processing_text(one)}" for name, one in sorted(given.items()))
    return processing_text(given)


def processing_text(given: Processing) -> str:
    changed = _changed(given)
    texts = ",".join(f"{name}={_value_text(value)}" for name, value in changed.items())
    return _TITLES[type(given)] + (f":{texts}" if texts else "")


def _changed(given: object) -> dict[str, Any]:
    """The fields that are not as usual."""
    known = {one.name: (getattr(given, one.name), one.default) for one in fields(given)}  # type: ignore[arg-type]
    return {name: value for name, (value, usual) in known.items() if value != usual}


def _value_text(value: object) -> str:
    if isinstance(value, str):
        return value
    if is_dataclass(value):
        value = _changed(value)
    text = json.dumps(value, separators=(",", ":"))
    return text if len(text) <= _LONGEST else blake2b(text.encode(), digest_size=16).hexdigest()


def parse_postprocess(texts: tuple[str, ...]) -> PostprocessOption | None:
    """What texts of `processing_text` say: one for the model, or several by outputs."""
    found = [_parse(text) for text in texts]
    if not found:
        return None
    named = {name: option for name, option in found if name}
    if len(found) == 1 and not named:
        return found[0][1]
    if len(named) != len(found):
        raise InputError(
            f"{len(found)} post-processings were given",
            "of several, each is for an output of its own",
            "write each as OUTPUT=topk:count=5",
        )
    return named


def _parse(text: str) -> tuple[str, Processing]:
    match = _TEXT.fullmatch(text)
    if match is None:
        name = text.partition(":")[0].rpartition("=")[2]
        what = f"there is no post-processing {name!r}"
        raise InputError(what, f"they are {', '.join(NAMES)}", nearest(name, NAMES))
    output, name, rest = (part or "" for part in match.groups())
    items = (item.partition("=") for item in re.split(r",(?=\w+=)", rest) if rest)
    given = {field: _parse_value(value) for field, _, value in items}
    if "anchors" in given and NAMES[name] is SsdBoxes:
        given["anchors"] = _anchors(given["anchors"])
    made: Processing = _make(name, NAMES[name], given)
    return output, made


def _make(title: str, kind: Any, given: Mapping[str, Any]) -> Any:
    known = [one.name for one in fields(kind)]
    for name in given:
        if name not in known:
            what = f"{title} has no {name!r}"
            raise InputError(what, f"it has {', '.join(known)}", nearest(name, known))
    return kind(**given)


def _anchors(given: Any) -> Any:
    """Numbers, a file of them, or what `SsdAnchors` makes them from."""
    if isinstance(given, Mapping):
        return _make("anchors", SsdAnchors, given)
    if not isinstance(given, str):
        return given
    try:
        return np.load(given, allow_pickle=False)
    except (OSError, ValueError) as error:
        what, fix = f"anchors cannot be read from {given!r}", "pass the path of a file of .npy"
        raise InputError(what, str(error), fix) from error


def _parse_value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
