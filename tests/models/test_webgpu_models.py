"""Whole models on WebGPU, by whatever adapter there is, agree with LiteRT.

Models of which values (q) or weights (w) are integers agree as far as docs/coverage.md has it:
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
ALLOWED = {"fp32": 1e-4, "mixed": 1e-2}
QUICK = ("kws_ref_model", "trained_lstm", "movie_review", "okay_nabu")
INTEGERS = ("q", "w")
SLACK = 1.2  # to an error in the table, which has two digits
pytestmark = [
    needs_webgpu,
    needs_models,
    pytest.mark.skipif(not runtimes.INSTALLED, reason="LiteRT is not installed"),
]


def names() -> list[str]:
    return sorted(path.stem for path in TFLITE.glob("*.tflite"))


@cache
def errors_on_opencl() -> dict[str, dict[str, float]]:
    """What the table of models has for those with integers, by precision."""
    found = {}
    text = (ROOT / "docs" / "coverage.md").read_text()
    for line in text.partition("## Models")[2].partition("\n## ")[0].splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        name, *marks = cells[0].split() if len(cells) == 8 else ("",)
        if set(marks) & set(INTEGERS):
            found[name] = {"fp32": float(cells[5]), "mixed": float(cells[6])}
    return found


def relative_error(ours: np.ndarray, theirs: np.ndarray) -> float:
    """The largest difference, relative to the range of what is right."""
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    wide = theirs.astype(np.float64)
    finite = np.isfinite(wide)
    assert np.array_equal(np.isfinite(ours.astype(np.float64)), finite)  # NaN never passes
    if not finite.any():
        return 0.0
    span = float(np.ptp(wide[finite])) or max(float(np.abs(wide[finite]).max()), 1.0)
    return float(np.abs(ours.astype(np.float64) - wide)[finite].max()) / span


def check(name: str, precision: str) -> None:
    path = TFLITE / f"{name}.tflite"
    with fourfold.Session(path, device(), precision, placement="gpu", strict=True) as session:
        inputs = random_inputs(session.inputs, seed=0)
        ours = list(session.run(inputs).values())
    theirs = open_file(path.read_bytes(), list(inputs.values()), None)()
    error = max(map(relative_error, ours, theirs))
    known = errors_on_opencl().get(name, {}).get(precision, 0.0)
    assert error <= max(ALLOWED[precision], SLACK * known)


@pytest.mark.parametrize("precision", ALLOWED)
@pytest.mark.parametrize("name", QUICK)
def test_small_models(name: str, precision: str) -> None:
    check(name, precision)


@pytest.mark.slow
@pytest.mark.parametrize("precision", ALLOWED)
@pytest.mark.parametrize("name", or_skipped(name for name in names() if name not in QUICK))
def test_all_models(name: str, precision: str) -> None:
    check(name, precision)


def test_the_table_of_models_is_read() -> None:
    known = errors_on_opencl()
    assert len(known) > 20
    assert known["kws_ref_model_float32"]["fp32"] > ALLOWED["fp32"]
    assert "mobilenet_v1_025_224_float" not in known


def test_a_kept_plan_is_played_without_what_made_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """From a store, from a file for this device, and from one for any such device."""
    path, store = TFLITE / "kws_ref_model.tflite", tmp_path / "store"
    targets = ("webgpu", "webgpu:any", "webgpu:software")
    files = {name: tmp_path / f"{number}.fourfold" for number, name in enumerate(targets)}
    for name, file in files.items():
        arguments = ["prepare", str(path), "-o", str(file), "--device", name, "--only-here"]
        made = CliRunner().invoke(main, arguments)
        assert made.exit_code == 0, made.output
    results, origins = [], []
    for source, cache_ in ((path, store), (path, store), *((one, None) for one in files.values())):
        with fourfold.Session(source, "webgpu", cache=cache_) as session:
            inputs = random_inputs(session.inputs, seed=0)
            results.append(session.run(inputs))
            origins.append(session.origin)
    assert origins == ["model", "store", "file", "file", "file"]
    assert "binary" not in caplog.text  # there is none to be missed
    for found in results[1:]:
        for name, array in results[0].items():
            np.testing.assert_array_equal(found[name], array)


def test_a_start_of_a_kept_plan_imports_little(tmp_path: Path) -> None:
    """Neither what makes plans nor the package whose library is called."""
    file = tmp_path / "kws.fourfold"
    arguments = ["prepare", str(TFLITE / "kws_ref_model.tflite"), "-o", str(file)]
    made = CliRunner().invoke(main, [*arguments, "--device", "webgpu", "--only-here"])
    assert made.exit_code == 0, made.output
    text = f"""
import sys, numpy, fourfold
session = fourfold.Session({str(file)!r}, "webgpu", cache=None)
session.run([numpy.zeros(one.shape, one.dtype) for one in session.inputs])
print(*sorted(name for name in sys.modules if name.startswith(("fourfold.", "wgpu", "cffi"))))
"""
    ran = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    loaded = ran.stdout.split()
    wrong = (
        "fourfold.compiler.lower",
        "fourfold.ops",
        "fourfold.formats",
        "fourfold.codegen",
        "wgpu",
        "cffi",
    )
    assert [name for name in loaded if name.startswith(wrong)] == []
    assert "fourfold.backends.webgpu.player" in loaded
