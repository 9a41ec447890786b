"""What is kept is good wherever the same fourfold is installed: elsewhere, later, in an archive."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest
from docs.tiny_model import tiny_model

import fourfold
from fourfold.device import DeviceInfo
from fourfold.store import package, store
from fourfold.store.store import Store

PACKAGE = Path(fourfold.__file__).parent
COMMAND = """
import sys
sys.path.insert(0, sys.argv.pop(1))
from fourfold.cli import main
main()
"""
DIGEST = """
import sys
sys.path.insert(0, sys.argv[1])
from fourfold.store.package import digest_sources
print(digest_sources()[2])
"""
START = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np, fourfold
with fourfold.Session(sys.argv[2], device=sys.argv[3], cache=sys.argv[4]) as session:
    session.run(np.zeros((1, 32, 32, 3), np.float32))
assert fourfold.__file__.startswith(sys.argv[1]), fourfold.__file__
print(session.origin)
"""


def child(program: str, *words: object) -> str:
    command = [sys.executable, "-c", program, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that has a copy of the package, with the times that its files have."""
    folder = tmp_path_factory.mktemp("here")
    shutil.copytree(PACKAGE, folder / "fourfold")
    return folder


@pytest.fixture(scope="module")
def later(tmp_path_factory: pytest.TempPathFactory, here: Path) -> Path:
    """Another, whose files were written at another time."""
    folder = tmp_path_factory.mktemp("later")
    shutil.copytree(here / "fourfold", folder / "fourfold", ignore=shutil.ignore_patterns("*.pyc"))
    for path in source_files(folder):
        os.utime(path, (1_000_000_000, 1_000_000_000))
    return folder


@pytest.fixture(scope="module")
def zipped(tmp_path_factory: pytest.TempPathFactory, here: Path) -> Path:
    """An archive that has it, beside other things."""
    path = tmp_path_factory.mktemp("zipped") / "app.zip"
    with ZipFile(path, "w") as archive:
        archive.writestr("__main__.py", "")
        for file in source_files(here):
            archive.write(file, file.relative_to(here))
    return path


def source_files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.suffix in (".py", ".json"))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "tiny.tflite"
    path.write_bytes(tiny_model())
    return path


@pytest.mark.parametrize("place", ["later", "zipped"])
def test_an_exported_store_starts_hot_elsewhere(
    place: str,
    here: Path,
    model: Path,
    device: DeviceInfo,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    other = request.getfixturevalue(place)
    mine, theirs, exported = tmp_path / "mine", tmp_path / "theirs", tmp_path / "all.fourfold"
    assert child(START, here, model, device.address, mine) == "model"
    child(COMMAND, here, "cache", "--folder", mine, "export", exported)
    child(COMMAND, other, "cache", "--folder", theirs, "import", exported)
    moved = shutil.copy(model, tmp_path / "moved.tflite")
    assert child(START, other, moved, device.address, theirs) == "store"


@pytest.mark.parametrize("place", ["later", "zipped"])
def test_a_prepared_file_starts_hot_elsewhere(
    place: str,
    here: Path,
    model: Path,
    device: DeviceInfo,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    other, file = request.getfixturevalue(place), tmp_path / "app.fourfold"
    child(COMMAND, here, "prepare", model, "-o", file, "--device", device.address, "--only-here")
    kept = tmp_path / "kept"
    assert child(START, other, file, device.address, kept) == "file"
    assert not list(kept.glob("entries/*"))  # the binary in the file was good


def test_sources_are_told_by_their_contents(here: Path, later: Path, zipped: Path) -> None:
    digest = child(DIGEST, here)
    assert child(DIGEST, later) == child(DIGEST, zipped) == digest
    for name in ("device.py", "ops/relu.py", "codegen/opencl/prelude.py", "backends/probing.py"):
        path = here / "fourfold" / name
        state, text = path.stat(), path.read_bytes()
        path.write_bytes(text + b"#")
        os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
        assert child(DIGEST, here) != digest, name
        path.write_bytes(text)
        os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert child(DIGEST, here) == digest


def test_a_kept_start_reads_no_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "sources_state", lambda: "as seen:1")
    monkeypatch.setattr(store, "digest_sources", lambda: ("as seen:1", 3_000_000_000, "digest"))
    assert Store(tmp_path).engine_parts["sources"] == "digest"
    monkeypatch.setattr(store, "digest_sources", lambda: ("other:1", 3_000_000_000, "read again"))
    assert Store(tmp_path).engine_parts["sources"] == "digest"
    monkeypatch.setattr(store, "sources_state", lambda: "other:1")
    assert Store(tmp_path).engine_parts["sources"] == "read again"


def test_without_files_the_version_must_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package, "PLAN_PACKAGES", ("no such folder",))
    for function in (package.sources_state, package.digest_sources):
        monkeypatch.setattr(store, function.__name__, function.__wrapped__)
    parts = Store(tmp_path).engine_parts
    assert parts["engine"] == fourfold.__version__
    assert Store(tmp_path / "other").engine_parts == parts
