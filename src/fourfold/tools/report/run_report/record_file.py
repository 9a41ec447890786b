"""Reports as JSON: written from records, and read back with each field checked for its type."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fourfold.errors import MALFORMED, InputError
from fourfold.support.records import read_typed
from fourfold.tools.report.run_report.record import VERSION, RunRecord

Path_ = str | Path


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
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"'{path}' cannot be read as a report", str(error), fix) from error
    version = data.get("version") if isinstance(data, Mapping) else None
    if version != VERSION:
        found = "no version" if version is None else f"version {version}"
        why = f"it has {found}; this fourfold reads version {VERSION}"
        raise InputError(f"'{path}' is no report that can be read here", why, fix)
    try:
        record: RunRecord = read_typed(RunRecord, data, "report")
    except MALFORMED as error:
        raise InputError(f"'{path}' is damaged", str(error), fix) from error
    return record
