"""Opening a session: warm starts import no compiler, TFLite cache options, cache locations."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tiny_plan import X, line

import fourfold
from fourfold.backends import make_player
from fourfold.backends.cuda import driver
from fourfold.device import DeviceInfo
from fourfold.runtime import loading
from fourfold.store.draft import Draft
from fourfold.store.keys import program_parts

COMPILER_MODULES = (
    "tflite",
    "fourfold.compiler.compile",
    "fourfold.formats",
    "fourfold.ops",
    "fourfold.compiler.rewrite",
    "fourfold.compiler.lower",
    "fourfold.codegen",
    "fourfold.compiler.tune",
)
UNNEEDED_MODULES = (
    "pyopencl",
    "sqlite3",
    "logging",
    "pathlib",
    "hashlib",
    "difflib",
    "fourfold.store.store",
    "fourfold.runtime.other_api",
    "fourfold.support.display",
)
# Without NVIDIA's driver, the CUDA backend is not imported.
CUDA_MODULES = () if driver.is_installed() else ("fourfold.backends.cuda.devices",)
WATCH = """
import sys, numpy as np
before = set(sys.modules)
import fourfold
with fourfold.Session(sys.argv[1], device=sys.argv[2], cache=sys.argv[3]) as session:
    session.run(np.zeros(16, np.float32))
print(session.origin, *(name for name in set(sys.modules) - before if name in sys.argv[4:]))
"""


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "m.bin"
    path.write_bytes(b"\0\0\0\0TFL3 a model")
    monkeypatch.setattr(loading, "compile_request", lambda request, tuned: line())
    return path


def run_and_list_imports(source: Path, device: DeviceInfo, cache: Path | str, *names: str) -> str:
    words = [str(source), str(device.index), str(cache), *COMPILER_MODULES, *names]
    source_folder = str(Path(fourfold.__file__).parent.parent)
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {source_folder!r}){WATCH}", *words],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_warm_start_does_not_import_the_compiler(
    model: Path, device: DeviceInfo, tmp_path: Path
) -> None:
    cache = tmp_path / "store"
    fourfold.Session(model, device, cache=cache).close()
    assert run_and_list_imports(model, device, cache) == "store"


def test_prepared_file_does_not_import_the_compiler(device: DeviceInfo, tmp_path: Path) -> None:
    path = tmp_path / "m.fourfold"
    draft = Draft()
    draft.add_compiled(draft.add_model("m", "digest", 1), device, line(), {})
    draft.write(path)
    assert run_and_list_imports(path, device, tmp_path / "store") == "file"


def test_prepared_file_imports_few_modules(device: DeviceInfo, tmp_path: Path) -> None:
    path, compiled = tmp_path / "m.fourfold", line()
    player = make_player(device, compiled.plan)
    player.run([X])
    draft = Draft()
    draft.add_compiled(draft.add_model("m", "digest", 1), device, compiled, {})
    draft.add_binary(program_parts(compiled.plan.program, device), player.binary())
    draft.write(path)
    player.close()
    assert run_and_list_imports(path, device, "auto", *UNNEEDED_MODULES, *CUDA_MODULES) == "file"


def test_serialization_dir_sets_the_cache_folder(
    model: Path, device: DeviceInfo, tmp_path: Path
) -> None:
    folder = tmp_path / "tflite"
    origins = []
    for token in ("a", "a", "b"):
        with fourfold.Session(
            model, device, serialization_dir=str(folder), model_token=token
        ) as session:
            origins.append(session.origin)
    assert origins == ["model", "store", "model"]
    assert folder.is_dir()


def test_rejects_conflicting_options(model: Path, device: DeviceInfo) -> None:
    with pytest.raises(fourfold.InputError, match="both cache and serialization_dir"):
        fourfold.Session(model, device, cache=None, serialization_dir="x")
    with pytest.raises(fourfold.InputError, match="only a prepared file"):
        fourfold.Session(model, device, cache=None, model="x")


def test_cache_none_stores_nothing(model: Path, device: DeviceInfo, tmp_path: Path) -> None:
    for _ in range(2):
        with fourfold.Session(model, device, cache=None) as session:
            assert (session.origin, session.hit) == ("model", False)
    assert [one.name for one in tmp_path.iterdir()] == ["m.bin"]


def test_memory_cache_lasts_for_the_process(
    model: Path, device: DeviceInfo, tmp_path: Path
) -> None:
    model.write_bytes(b"\0\0\0\0TFL3 only in memory")
    origins = []
    for _ in range(2):
        with fourfold.Session(model, device, cache="memory") as session:
            assert np.array_equal(session.run(X)["the y"], 2 * X + 1)
            origins.append(session.origin)
    assert origins == ["model", "store"]
    assert [one.name for one in tmp_path.iterdir()] == ["m.bin"]


def test_models_passed_as_bytes_are_cached(model: Path, device: DeviceInfo, tmp_path: Path) -> None:
    origins = []
    for _ in range(2):
        with fourfold.Session(model.read_bytes(), device, cache=tmp_path / "s") as session:
            origins.append(session.origin)
            assert session.hit == (session.origin == "store")
            assert {"device", "open", "build", "upload"} <= set(session.timings)
    assert origins == ["model", "store"]
