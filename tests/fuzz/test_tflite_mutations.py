"""Damaged TFLite files raise only a FourfoldError.

This is the short version of `python -m fuzz.mutations`, and tests its components.
"""

from __future__ import annotations

import json
import random
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from fuzz import case as cases
from fuzz.attack import damage_found
from fuzz.case import MIB, Case, try_case
from fuzz.mutate import mutate
from fuzz.mutations import main, plan_cases
from fuzz.originals import FOLDERS, Originals
from fuzz.tflite_fields import find_fields
from fuzz.workers import Limits, try_cases
from fuzz.written_models import MODELS
from runtimes import needs_litert
from tflite_writer import Operator, Tensor, write

from fourfold.formats import read_model

READ_ROUNDS = 2500  # changed bits and words per written file, which is then read
COMPILE_ROUNDS = 150  # changed fields per written file, which is then compiled
PLAYED = 20
CPU_ROUNDS = 200  # changed fields, for files that are opened in their CPU engine
SHARED_ROUNDS = 800  # for all small files of the shared folders
MAX_SHARED_BYTES = 12_000
MEMORY_LIMIT_BYTES = 1 << 40  # this process holds memory of other tests, too
needs_shared = pytest.mark.skipif(
    not all(folder.is_dir() for folder in FOLDERS), reason="the shared files are not here"
)


@cache
def originals() -> Originals:
    return Originals()


def check_no_finding(case: Case, play: bool = False) -> None:
    finding = try_case(case, originals(), play, MEMORY_LIMIT_BYTES).finding
    assert finding is None, f"{case}\n{finding.trace or finding.what}"


@pytest.mark.parametrize("name", MODELS)
def test_undamaged_files_are_read(name: str) -> None:
    assert read_model(MODELS[name]()).main.outputs == ("y",)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", MODELS)
def test_damaged_files_raise_only_our_errors(name: str, seed: int) -> None:
    data = MODELS[name]()
    for number in range(READ_ROUNDS):
        damage_found(mutate(data, random.Random(f"{seed} {number}")))


@pytest.mark.parametrize("name", MODELS)
def test_truncated_files_raise_only_our_errors(name: str) -> None:
    data = MODELS[name]()
    results = [damage_found(data[:length]) for length in range(len(data))]
    assert all(error is not None for error in results[: len(data) // 2])


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", MODELS)
def test_changed_fields_raise_only_our_errors(name: str, seed: int) -> None:
    for number in range(COMPILE_ROUNDS):
        check_no_finding(Case(f"written/{name}.tflite", number, seed), play=number < PLAYED)


@needs_shared
@pytest.mark.parametrize("part", range(4))
def test_changed_fields_of_shared_files_raise_only_our_errors(part: int) -> None:
    result = originals()
    for case in plan_cases(result, SHARED_ROUNDS, seed=0)[part::4]:
        if len(result.get(case.title).content) < MAX_SHARED_BYTES:
            check_no_finding(case)


def test_finds_fields_of_a_file() -> None:
    data = MODELS["weights"]()
    numbers = find_fields(data).numbers
    read = {meaning: [field.read(data) for field in some] for meaning, some in numbers.items()}
    assert read["scale"] == [0.5, 0.25, 1.0]
    assert read["zero point"] == [0, 0, 0]
    assert read["size"][:2] == [1, 3]
    assert sorted(read["buffer number"]) == [1, 2, 3, 4]
    assert set(read["number"]) >= {1, 3}  # the size that FILL gets
    assert set(read["union"]) >= {8, 21}  # the options of FULLY_CONNECTED and MUL


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with two files for worker processes."""
    directory = tmp_path / "files"
    directory.mkdir()
    for name in ("convolution", "shapes"):
        (directory / f"{name}.tflite").write_bytes(MODELS[name]())
    return directory


def test_cases_from_an_archive_are_the_same(folder: Path, tmp_path: Path) -> None:
    weights = np.random.default_rng(0).uniform(-1, 1, (64, 64)).astype(np.float32)
    tensors = [Tensor("x", (1, 64)), Tensor("w", (64, 64), data=weights), Tensor("y", (1, 64))]
    operator = Operator("FULLY_CONNECTED", ["x", "w", None], ["y"], "FullyConnectedOptions")
    (folder / "large.tflite").write_bytes(write(tensors, [operator], ["x"], ["y"]))
    whole, archive = Originals(folder), tmp_path / "originals.zip"
    whole.pack(archive)
    packed = Originals(archive)
    assert packed.titles == whole.titles
    assert archive.stat().st_size < weights.nbytes
    for case in plan_cases(packed, 20, seed=3):
        assert case.draw(packed) == case.draw(whole)


def test_reports_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(data: bytes, course: object) -> None:
        raise ZeroDivisionError("nothing to share")

    monkeypatch.setattr(cases, "compile_damaged", fail)
    result = try_case(
        Case("written/shapes.tflite", 1), originals(), False, MEMORY_LIMIT_BYTES
    ).finding
    assert result is not None
    assert result.what == "ZeroDivisionError: nothing to share"
    assert result.where.startswith("tests/fuzz/test_tflite_mutations.py:")
    monkeypatch.setattr(cases, "compile_damaged", lambda data, course: None)
    result = try_case(Case("written/shapes.tflite", 1), originals(), False, memory=1).finding
    assert result is not None
    assert result.kind == "memory"


@pytest.mark.parametrize(
    ("title", "patience", "kind"),
    [("files/shapes.tflite", 0.0, "hang"), ("files/not there", 600.0, "crash")],
)
def test_replaces_workers_that_hang_or_crash(
    folder: Path, title: str, patience: float, kind: str
) -> None:
    limits = Limits(folder, play=False, memory=2048 * MIB, patience=patience)
    inputs = [Case(title, number) for number in range(3)]
    done = dict(try_cases(inputs, 1, limits))
    assert set(done) == set(inputs)
    assert {done[case].finding.kind for case in inputs} == {kind}


@needs_litert
@pytest.mark.parametrize("play", [False, True])
def test_cpu_engine_survives_damaged_files(folder: Path, play: bool) -> None:
    """In a worker process, where a crash is a finding."""
    limits = Limits(folder, play=play, memory=2048 * MIB, patience=600.0, cpu=True)
    done = dict(try_cases(plan_cases(Originals(folder), CPU_ROUNDS, seed=0), 1, limits))
    findings = {str(case): one.finding for case, one in done.items() if one.finding is not None}
    assert not findings
    assert {one.result for one in done.values()} == {"refused", "played" if play else "opened"}


def test_command_reports_findings(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "found.json"
    words = ["--models", str(folder), "--jobs", "2", "--json", str(report)]
    assert main([*words, "--cases", "12"]) == 0
    assert capsys.readouterr().out.startswith("12 cases: ")
    record = json.loads(report.read_text())
    assert (sum(record["results"].values()), record["findings"]) == (12, [])
    assert 0 < record["peak_bytes"] < 2048 * MIB
    assert main([*words, "--cases", "2", "--patience", "0"]) == 1
    assert "2 x hang: it took longer than 0 s" in capsys.readouterr().out
    assert main([*words, "--case", "files/shapes.tflite:3"]) == 0
    assert "files/shapes.tflite:3 with seed 0" in capsys.readouterr().out
