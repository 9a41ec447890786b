"""Reads JSON data as dataclasses, and checks that every value has its declared type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints


def read_record(kind: Any, value: Any) -> Any:
    """Return JSON data as a value of this type: a dataclass, a tuple of any length, a mapping by
    text, a number, a text, a flag, or None. Raises TypeError for anything else.
    """
    if isinstance(kind, type) and is_dataclass(kind):
        types = _field_types(kind)
        if not isinstance(value, dict) or not value.keys() <= types.keys():
            raise _mismatch(kind, value)
        return kind(**{name: read_record(types[name], item) for name, item in value.items()})
    origin, inner = get_origin(kind), get_args(kind)
    if origin is UnionType:
        (other,) = (one for one in inner if one is not NoneType)
        return None if value is None else read_record(other, value)
    if origin is tuple and isinstance(value, list):
        return tuple(read_record(inner[0], item) for item in value)
    if origin is Mapping and isinstance(value, dict):
        return {name: read_record(inner[1], item) for name, item in value.items()}
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise _mismatch(kind, value)
    return value


@cache
def _field_types(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _mismatch(kind: Any, value: object) -> TypeError:
    return TypeError(f"{type(value).__name__} instead of {getattr(kind, '__name__', kind)}")
