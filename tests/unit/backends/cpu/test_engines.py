"""A second CPU engine is found by its folder, named by a format, and runs fallback operators."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import fourfold
from fourfold import formats
from fourfold.backends import cpu
from fourfold.backends.cpu.registry import (
    engine_names,
    find_engine,
    runtime_versions,
    usable_engine,
)
from fourfold.cli import main
from fourfold.device import DeviceInfo
from fourfold.errors import DeviceError
from fourfold.plan.targets import GPU, NUMPY
from fourfold.runtime import race

FOLDER = Path(__file__).parents[3] / "engines"
X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)
EXPECTED = np.square(np.sin(3 * np.maximum(X, 0)) + np.maximum(X, 0) / 2)
TARGETS = [GPU, "abacus", GPU]


def chain(*ops: str) -> bytes:
    names = [[op, f"{op.lower()}{number}"] for number, op in enumerate(ops)]
    return json.dumps({"chain": names, "input": "x", "shape": [3, 4]}).encode()


MIXED, WHOLE = chain("Relu", "Wobble", "Square"), chain("Relu", "Square")


@pytest.fixture(autouse=True)
def abacus(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Install the engine next to the package's own for one test."""
    monkeypatch.setattr(cpu, "__path__", [*cpu.__path__, str(FOLDER / "cpu")])
    monkeypatch.setattr(formats, "__path__", [*formats.__path__, str(FOLDER / "formats")])
    formats.formats.cache_clear()
    find_engine.cache_clear()
    yield find_engine("abacus")
    monkeypatch.undo()
    ours = ("fourfold.backends.cpu.abacus", "fourfold.formats.chain")
    for name in [name for name in sys.modules if name.startswith(ours)]:
        del sys.modules[name]
    vars(cpu).pop("abacus", None)
    vars(formats).pop("chain", None)
    formats.formats.cache_clear()
    find_engine.cache_clear()


@pytest.fixture
def path(tmp_path: Path) -> str:
    result = tmp_path / "model.chain"
    result.write_bytes(MIXED)
    return str(result)


def command(*words: str) -> Any:
    return CliRunner().invoke(main, [*words])


def part_targets(session: fourfold.Session) -> list[str]:
    return [part.target for part in session.placement.parts]


def test_engines_are_found_by_folder(abacus: Any) -> None:
    assert {"abacus", "litert", NUMPY} <= {*engine_names()}
    assert abacus.version() in runtime_versions()
    assert usable_engine("abacus") is abacus
    assert usable_engine(None) is find_engine(NUMPY)
    with pytest.raises(DeviceError, match="no CPU engine is called 'abacas'"):
        find_engine("abacas")


def test_engine_runs_fallback_operators(abacus: Any, device: DeviceInfo, tmp_path: Path) -> None:
    """The cached model contains the engine's part and is read without the format."""
    for origin in ("model", "store"):
        words: Any = {"placement": "gpu", "cache": tmp_path}
        with fourfold.Session(MIXED, device, **words) as session:
            assert (session.origin, part_targets(session)) == (origin, TARGETS)
            np.testing.assert_allclose(session.run(X)["square2"], EXPECTED, atol=1e-5)
            assert "CPU (Abacus): 1 × Wobble" in str(session.placement)
    (content,) = {*sys.modules[type(abacus).__module__].OPENED}
    assert json.loads(content)["chain"] == [["Wobble", "wobble1"]]


def test_engine_runs_entire_models() -> None:
    with fourfold.Session(WHOLE, placement="cpu", cache=None) as session:
        assert part_targets(session) == ["abacus"]
        np.testing.assert_allclose(session.run(X)["square1"], np.square(np.maximum(X, 0)))


@pytest.mark.needs_device
@pytest.mark.parametrize(("present", "raced"), [(True, 1), (False, 0)])
def test_placement_measures_installed_engines(
    present: bool, raced: int, monkeypatch: pytest.MonkeyPatch, abacus: Any
) -> None:
    measurements: list[int] = []
    monkeypatch.setattr(type(abacus), "present", present)
    monkeypatch.setattr(race, "_times", lambda *_: measurements.append(1) or (2.0, 1.0))
    with fourfold.Session(WHOLE, placement="measure", cache=None) as session:
        assert part_targets(session) == ["abacus" if raced else GPU]
    assert len(measurements) == raced


@pytest.mark.needs_device
def test_errors_name_the_engine(abacus: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(fourfold.UnsupportedError, match="Abacus has no such bead") as caught:
        fourfold.Session(chain("Relu", "Warp"), cache=None)
    assert "'fourfold ops' lists" in str(caught.value)
    monkeypatch.setattr(type(abacus), "present", False)
    with pytest.raises(fourfold.UnsupportedError, match="Abacus is not installed") as caught:
        fourfold.Session(MIXED, cache=None)
    assert "install Abacus" in str(caught.value)
    assert "pip install abacus" in str(caught.value)


@pytest.mark.needs_device
def test_commands_compare_with_the_engine(path: str) -> None:
    checked = command("check", path, "--device", "null")
    assert checked.exit_code == 0, checked.output
    assert "CPU (Abacus)" in checked.output
    verified = command("verify", path, "--layers")
    assert verified.exit_code == 0, verified.output
    assert "all outputs agree with Abacus" in verified.output
    measured = command("bench", path, "--runs", "2", "--seconds", "0", "--json")
    assert measured.exit_code == 0, measured.output
    report = json.loads(measured.stdout)
    assert (report["rival"], report["compared"]) == ("Abacus CPU", True)
    assert {*report["seconds"]} == {"fourfold", "Abacus CPU"}


@pytest.mark.needs_device
def test_verify_detects_a_fault(
    tmp_path: Path, abacus: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = tmp_path / "whole.chain"
    result.write_bytes(WHOLE)
    functions = sys.modules[type(abacus).__module__].FUNCTIONS
    monkeypatch.setitem(functions, "Square", lambda x: x * x + 1)
    verified = command("verify", str(result))
    assert verified.exit_code == 1, verified.output
    assert "differs" in verified.output


@pytest.mark.needs_device
def test_verify_compares_with_numpy_without_the_engine(
    tmp_path: Path, abacus: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = tmp_path / "whole.chain"
    result.write_bytes(WHOLE)
    monkeypatch.setattr(type(abacus), "present", False)
    verified = command("verify", str(result), "--layers")
    assert verified.exit_code == 0, verified.output
    assert "the NumPy definitions of operators, not with a runtime:" in verified.output
    assert "Abacus is not installed (pip install abacus)" in verified.output
    assert "all outputs agree with NumPy" in verified.output
    measured = command("bench", str(result), "--runs", "2", "--seconds", "0")
    assert measured.exit_code == 0, measured.output
    assert "not compared with a CPU runtime: Abacus is not installed" in measured.output
