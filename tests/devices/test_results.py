"""Results from a run, in a file, and in a table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from devices.implementations import INTEL, LOG, Implementation
from devices.results import Result, Row, parse_line, read_rows, write_rows
from devices.run_tests import Setting, run_tests
from devices.table import faults, skips, table

MODEL = "tests/devices/small_models.py::test_agrees_with_litert[a-device-pnet-mixed]"
OP = "tests/ops/test_ops.py::test_cases[a-device-relu-mixed]"
CONFTEST = """
def pytest_addoption(parser):
    parser.addoption("--device")
"""
TESTS = f"""
import os, time, pytest

def test_right(): pass

def test_skipped(): pytest.skip("a reason")

def test_wrong(): assert 1 + 1 == 3, "one and one"

def test_dies(): os.abort()

def test_hangs(): time.sleep(600)

def test_complained():
    with open(os.environ["{LOG}"], "a") as log:
        log.write("Uninitialized value\\n")

def test_right_afterwards(): pass
"""


def test_parses_lines() -> None:
    assert parse_line('{"tests": 607}', 1.0, 9.0) == 607
    died = json.dumps({"test": OP, "outcome": "crashed", "words": "gone", "seconds": 0.0})
    assert parse_line(died, quiet=1.0, limit=9.0) == Result(OP, "crashed", "gone")
    hung = parse_line(died, quiet=9.5, limit=9.0)
    assert isinstance(hung, Result)
    assert (hung.outcome, hung.words) == ("hung", "took longer than 9 s")


def test_groups_results() -> None:
    assert Result(OP, "passed").group == "ops"
    assert Result(MODEL, "passed").group == "mixed"
    assert Result(MODEL, "passed").title.startswith("small_models: test_agrees_with_litert[")


@pytest.mark.slow
def test_run_survives_crashes_and_hangs(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_some.py").write_text(TESTS)
    here = Implementation("here", "", INTEL)
    row, seen = Row("here", "device", "1.0", 1), []
    setting = Setting(here, 1, here.environment(tmp_path / "scratch", 1))
    words = [str(tmp_path), f"--rootdir={tmp_path}", "--device=none"]
    run_tests(row, setting, words, 20.0, lambda row, total: seen.append(total))
    results = {result.test.rpartition("::")[2]: result for result in row.results}
    outcomes = {name: result.outcome for name, result in results.items()}
    assert outcomes == {
        "test_right": "passed",
        "test_skipped": "skipped",
        "test_wrong": "failed",
        "test_dies": "crashed",
        "test_hangs": "hung",
        "test_complained": "failed",
        "test_right_afterwards": "passed",
    }
    assert results["test_skipped"].words == "a reason"
    assert results["test_wrong"].words.startswith("AssertionError: one and one")
    assert "Uninitialized value" in results["test_complained"].words
    assert row.note == ""
    assert seen[-1] == len(results)


def rows() -> list[Row]:
    model = [Result(MODEL.replace("pnet", name), "passed") for name in ("pnet", "kws")]
    wrong = [Result(OP.replace("relu", name), "failed", "off by 2") for name in ("relu", "add")]
    refused = [Result(MODEL.replace("mixed", "fp16"), "skipped", "a device has no halves")]
    left = [Result(OP.replace("relu", "abs"), "skipped", "a device has none")]
    return [
        Row("one", "a device", "1.0", 2, [Result(OP, "passed"), *model, *refused, *left]),
        Row("other", "another", "2.0", 1, [Result(OP, "passed"), *wrong, *model], "interrupted"),
        Row("third", "", "", 1, note="has no device here"),
    ]


def test_formats_a_table() -> None:
    lines = [*table(rows())]
    assert lines[2] == "| one 1.0 | a device | 2 | all 1 | - | all 2 | has no halves |"
    assert "| **1 of 3**, interrupted |" in lines[3]
    assert lines[4].count("has no device here") == 4


def test_groups_failures_by_cause() -> None:
    (line,) = faults(rows())
    assert line.startswith("- other 2.0, threads 1: failed: off by 2 (test_ops: test_cases[")
    assert [*skips(rows())] == ["- skipped, it has none: 1 on one 1.0, threads 2"]


def test_rows_round_trip(tmp_path: Path) -> None:
    write_rows(tmp_path / "rows.json", {"python": "3"}, rows())
    assert read_rows(tmp_path / "rows.json") == rows()
