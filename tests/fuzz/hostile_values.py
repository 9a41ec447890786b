"""Values that no reader expects, and changes that put them into records."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

HOSTILE: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2**31, 2**63, -(2**63), 2**70, 10**30, 0.5, -0.0, 1e308),
    *(float("nan"), float("inf"), "", " ", "0", "-1", "x" * 70_000, "a\0b", "\ud800", "\x1b[31m"),
    *("\u202egnp.exe", "../../etc/passwd", "f32[1]", "gpu", [], {}, [[]], [None], {"": None}),
    *([1, "a", None, {}], {"a": [1]}, [0] * 100, ["x"] * 100),
)
TEXTS = (
    *("", "null", "[]", "{}", "{", '{"', "{" * 100_000, '{"a":' * 100_000, '{"a":[' * 100_000),
    *('{"device": ' + "9" * 5000 + "}", '{"seconds": NaN}', "\x1b]0;title\x07", "{\0}", "{\ud800}"),
    '{"error": ' + "[" * 900 + "]" * 900 + "}",
)


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Return every container in a value with each of its keys or indices."""
    pairs: Any = ()
    if isinstance(value, dict):
        pairs = list(value.items())
    elif isinstance(value, list):
        pairs = list(enumerate(value))
    return [place for key, inner in pairs for place in ((value, key), *_places(inner))]


def nested(depth: int) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = [value]
    return value


def forge_record(record: Any, rng: random.Random) -> Any:
    """Return a copy with some values replaced, moved, removed or added."""
    record = copy.deepcopy(record)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        places = _places(record)
        if not places:
            break
        holder, key = rng.choice(places)
        kind = rng.random()
        if kind < 0.6:
            holder[key] = copy.deepcopy(rng.choice((*HOSTILE, nested(50))))
        elif kind < 0.75:
            other, index = rng.choice(places)
            if index in other if isinstance(other, dict) else index < len(other):
                holder[key] = copy.deepcopy(other[index])
        elif kind < 0.9 or isinstance(holder, dict):
            del holder[key]
        else:
            holder.insert(key, copy.deepcopy(rng.choice(HOSTILE)))
    return record


def forge_line(record: Any, rng: random.Random) -> str:
    """Return a forged record as a line of JSON, or a line that is no record at all."""
    if rng.random() < 0.15:
        return rng.choice(TEXTS)
    return json.dumps(forge_record(record, rng))
