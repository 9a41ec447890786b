"""Models on WebGPU, with any available adapter, agree with LiteRT.

Models with integer values (q) or weights (w) agree within the errors listed in docs/coverage.md;
LiteRT's own kernels disagree about these, too.
"""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import runtimes
from click.testing import CliRunner
from model_collection import TFLITE, needs_models, or_skipped
from webgpu_device import device, needs_webgpu

import fourfold
from fourfold.backends.cpu.litert.interpreter import open_file
from fourfold.cli import main
from fourfold.runtime.random_inputs import random_inputs

ROOT = Path(__file__).resolve().parents[2]
TOLERANCES = {"fp32": 1e-4, "mixed": 1e-2}
QUICK = ("kws_ref_model", "trained_lstm", "movie_review", "okay_nabu")
INTEGERS = ("q", "w")
SLACK = 1.2  # for errors in the table, which have two digits
pytestmark = [
    needs_webgpu,
    needs_models,
    pytest.mark.skipif(not runtimes.INSTALLED, reason="LiteRT is not installed"),
]


def model_names() -> list[str]:
    return sorted(path.stem for path in TFLITE.glob("*.tflite"))


@cache
def documented_errors() -> dict[str, dict[str, float]]:
    """Return the errors of integer models in the table of models, by precision."""
    results = {}
    text = (ROOT / "docs" / "coverage.md").read_text()
    for line in text.partition("## Models")[2].partition("\n## ")[0].splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        name, *marks = cells[0].split() if len(cells) == 8 else ("",)
        if set(marks) & set(INTEGERS):
            results[name] = {"fp32": float(cells[5]), "mixed": float(cells[6])}
    return results


def relative_error(ours: np.ndarray, theirs: np.ndarray) -> float:
    """Return the largest difference relative to the range of the expected values."""
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    wide = theirs.astype(np.float64)
    finite = np.isfinite(wide)
    assert np.array_equal(np.isfinite(ours.astype(np.float64)), finite)  # NaN never passes
    if not finite.any():
        return 0.0
    span = float(np.ptp(wide[finite])) or max(float(np.abs(wide[finite]).max()), 1.0)
    return float(np.abs(ours.astype(np.float64) - wide)[finite].max()) / span


def check_model(name: str, precision: str) -> None:
    path = TFLITE / f"{name}.tflite"
    with fourfold.Session(path, device(), precision, placement="gpu", strict=True) as session:
        inputs = random_inputs(session.inputs, seed=0)
        ours = list(session.run(inputs).values())
    theirs = open_file(path.read_bytes(), list(inputs.values()), None)()
    error = max(map(relative_error, ours, theirs))
    documented = documented_errors().get(name, {}).get(precision, 0.0)
    assert error <= max(TOLERANCES[precision], SLACK * documented)


@pytest.mark.parametrize("precision", TOLERANCES)
@pytest.mark.parametrize("name", QUICK)
def test_small_models_agree_with_litert(name: str, precision: str) -> None:
    check_model(name, precision)


@pytest.mark.slow
@pytest.mark.parametrize("precision", TOLERANCES)
@pytest.mark.parametrize("name", or_skipped(name for name in model_names() if name not in QUICK))
def test_all_models_agree_with_litert(name: str, precision: str) -> None:
    check_model(name, precision)


def test_reads_documented_errors() -> None:
    documented = documented_errors()
    assert len(documented) > 20
    assert documented["kws_ref_model_float32"]["fp32"] > TOLERANCES["fp32"]
    assert "mobilenet_v1_025_224_float" not in documented


def test_cached_and_prepared_plans_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Covers the cache, a file for this device, and files for any device of a kind."""
    path, store = TFLITE / "kws_ref_model.tflite", tmp_path / "store"
    targets = ("webgpu", "webgpu:any", "webgpu:software")
    files = {name: tmp_path / f"{number}.fourfold" for number, name in enumerate(targets)}
    for name, file in files.items():
        arguments = ["prepare", str(path), "-o", str(file), "--device", name, "--only-here"]
        created = CliRunner().invoke(main, arguments)
        assert created.exit_code == 0, created.output
    results, origins = [], []
    for source, cache_ in ((path, store), (path, store), *((one, None) for one in files.values())):
        with fourfold.Session(source, "webgpu", cache=cache_) as session:
            inputs = random_inputs(session.inputs, seed=0)
            results.append(session.run(inputs))
            origins.append(session.origin)
    assert origins == ["model", "store", "file", "file", "file"]
    assert "binary" not in caplog.text  # WebGPU has no binaries to miss
    for result in results[1:]:
        for name, array in results[0].items():
            np.testing.assert_array_equal(result[name], array)


def test_prepared_plan_imports_few_modules(tmp_path: Path) -> None:
    """Neither the compiler nor the wgpu package itself is imported."""
    file = tmp_path / "kws.fourfold"
    arguments = ["prepare", str(TFLITE / "kws_ref_model.tflite"), "-o", str(file)]
    result = CliRunner().invoke(main, [*arguments, "--device", "webgpu", "--only-here"])
    assert result.exit_code == 0, result.output
    text = f"""
import sys, numpy, fourfold
session = fourfold.Session({str(file)!r}, "webgpu", cache=None)
session.run([numpy.zeros(one.shape, one.dtype) for one in session.inputs])
print(*sorted(name for name in sys.modules if name.startswith(("fourfold.", "wgpu", "cffi"))))
"""
    ran = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    loaded = ran.stdout.split()
    unwanted = (
        "fourfold.compiler.lower",
        "fourfold.ops",
        "fourfold.formats",
        "fourfold.codegen",
        "wgpu",
        "cffi",
    )
    assert [name for name in loaded if name.startswith(unwanted)] == []
    assert "fourfold.backends.webgpu.player" in loaded
