"""Reads JSON data as dataclasses, and checks that every value has its declared type."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints


def read_typed(kind: Any, data: Any, where: str) -> Any:
    """Return JSON data as a value of this type: a dataclass, a tuple, a mapping by text, a number,
    a text, a flag, or None. Raises TypeError for other data; `where` names them in the message.
    """
    origin, inner = get_origin(kind), get_args(kind)
    if is_dataclass(kind):
        return _read_dataclass(kind, data, where)
    if origin in (Union, types.UnionType):
        (real,) = (one for one in inner if one is not type(None))
        return None if data is None else read_typed(real, data, where)
    if origin is tuple and isinstance(data, list):
        kinds = [inner[0]] * len(data) if inner[-1] is Ellipsis else inner
        if len(kinds) == len(data):
            pairs = enumerate(zip(kinds, data, strict=True))
            return tuple(read_typed(one, item, f"{where}[{at}]") for at, (one, item) in pairs)
    if origin in (dict, Mapping) and isinstance(data, dict):
        return {key: read_typed(inner[1], item, f"{where}.{key}") for key, item in data.items()}
    if kind is float and isinstance(data, int) and not isinstance(data, bool):
        return float(data)
    if isinstance(kind, type) and type(data) is kind:
        return data
    raise _mismatch(data, where)


@cache
def _fields_of(kind: Any) -> tuple[tuple[str, Any, bool], ...]:
    hints = get_type_hints(kind)
    return tuple((one.name, hints[one.name], one.default is MISSING) for one in fields(kind))


def _read_dataclass(kind: Any, data: Any, where: str) -> Any:
    if not isinstance(data, dict):
        raise _mismatch(data, where)
    values = {}
    for name, hint, needed in _fields_of(kind):
        if name in data:
            values[name] = read_typed(hint, data[name], f"{where}.{name}")
        elif needed:
            raise TypeError(f"{where} has no {name}")
    return kind(**values)


def _mismatch(data: object, where: str) -> TypeError:
    return TypeError(f"{where} is {type(data).__name__}, which it cannot be")
