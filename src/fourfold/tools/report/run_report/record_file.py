"""Reports as JSON: written from records, and read back with each field checked for its type."""

from __future__ import annotations

import json
import types
from collections.abc import Mapping
from dataclasses import MISSING, asdict, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

from fourfold.errors import InputError
from fourfold.tools.report.run_report.record import VERSION, RunRecord

Path_ = str | Path


class _Misfit(Exception):
    """Data do not have the type of a field."""


def record_as_data(record: RunRecord) -> dict[str, Any]:
    """Return a record as plain data for JSON."""
    return asdict(record)


def write_record(record: RunRecord, path: Path_) -> None:
    text = json.dumps(record_as_data(record), ensure_ascii=False, separators=(",", ":"))
    Path(path).write_text(text + "\n", encoding="utf-8")


def read_record(path: Path_) -> RunRecord:
    """Read a file that `write_record` wrote; InputError for other files."""
    fix = "pass a file that 'fourfold report MODEL --json FILE' wrote"
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"'{path}' cannot be read as a report", str(error), fix) from error
    version = data.get("version") if isinstance(data, Mapping) else None
    if version != VERSION:
        found = "no version" if version is None else f"version {version}"
        why = f"it has {found}; this fourfold reads version {VERSION}"
        raise InputError(f"'{path}' is no report that can be read here", why, fix)
    try:
        record: RunRecord = _read(RunRecord, data, "report")
    except _Misfit as error:
        raise InputError(f"'{path}' is damaged", str(error), fix) from error
    return record


@cache
def _fields_of(kind: Any) -> tuple[tuple[str, Any, bool], ...]:
    hints = get_type_hints(kind)
    return tuple((one.name, hints[one.name], one.default is MISSING) for one in fields(kind))


def _read(kind: Any, data: Any, where: str) -> Any:
    """Return data as a value of a type of record fields."""
    origin, inner = get_origin(kind), get_args(kind)
    if is_dataclass(kind):
        return _read_dataclass(kind, data, where)
    if origin in (Union, types.UnionType):
        (real,) = (one for one in inner if one is not type(None))
        return None if data is None else _read(real, data, where)
    if origin is tuple and isinstance(data, list):
        kinds = [inner[0]] * len(data) if inner[-1] is Ellipsis else inner
        if len(kinds) == len(data):
            pairs = enumerate(zip(kinds, data, strict=True))
            return tuple(_read(one, item, f"{where}[{at}]") for at, (one, item) in pairs)
    if origin is dict and isinstance(data, dict):
        return {key: _read(inner[1], item, f"{where}.{key}") for key, item in data.items()}
    if kind is float and isinstance(data, int) and not isinstance(data, bool):
        return float(data)
    if isinstance(kind, type) and type(data) is kind:
        return data
    raise _Misfit(f"{where} is {type(data).__name__}, which it cannot be")


def _read_dataclass(kind: Any, data: Any, where: str) -> Any:
    if not isinstance(data, dict):
        raise _Misfit(f"{where} is {type(data).__name__}, which it cannot be")
    values = {}
    for name, hint, needed in _fields_of(kind):
        if name in data:
            values[name] = _read(hint, data[name], f"{where}.{name}")
        elif needed:
            raise _Misfit(f"{where} has no {name}")
    return kind(**values)
