"""Report files round-trip, and damaged ones are rejected with a reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from run_records import make_record

from fourfold.errors import InputError
from fourfold.tools.report.run_report.record import VERSION
from fourfold.tools.report.run_report.record_file import read_record, record_as_data, write_record


def changed(path: Path, **fields: Any) -> Path:
    path.write_text(json.dumps({**record_as_data(make_record()), **fields}), encoding="utf-8")
    return path


def test_a_record_comes_back_as_it_was(tmp_path: Path) -> None:
    write_record(make_record(), tmp_path / "run.json")
    assert read_record(tmp_path / "run.json") == make_record()


def test_whole_numbers_may_stand_for_real_ones(tmp_path: Path) -> None:
    path = changed(tmp_path / "run.json", start=[["device", 1]])
    assert read_record(path).start == (("device", 1.0),)


def test_another_version_is_refused(tmp_path: Path) -> None:
    path = changed(tmp_path / "run.json", version=VERSION + 1)
    with pytest.raises(InputError, match=f"version {VERSION + 1}"):
        read_record(path)


@pytest.mark.parametrize(
    ("field", "value", "where"),
    [
        ("nodes", 5, r"report\.nodes is int"),
        ("start", [["device"]], r"report\.start\[0\] is list"),
        ("launches", "three", r"report\.launches is str"),
        ("memory", {"weights": 1}, r"report\.memory has no arena"),
        ("texts", {"a": None}, r"report\.texts\.a is NoneType"),
    ],
)
def test_damage_is_named(tmp_path: Path, field: str, value: Any, where: str) -> None:
    path = changed(tmp_path / "run.json", **{field: value})
    with pytest.raises(InputError, match=where):
        read_record(path)


@pytest.mark.parametrize("text", ["", "no JSON", "[]", "{}"])
def test_files_that_are_not_reports_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "run.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=r"fourfold report MODEL --json"):
        read_record(path)


def test_a_missing_file_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read as a report"):
        read_record(tmp_path / "none.json")
