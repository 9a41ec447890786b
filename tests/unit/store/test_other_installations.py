"""Cached entries are valid for any installation of the same fourfold: in another folder, with other
times, or in a zip archive.
"""

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


def run_child(program: str, *words: object) -> str:
    command = [sys.executable, "-c", program, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a copy of the package, with the original file times."""
    folder = tmp_path_factory.mktemp("here")
    shutil.copytree(PACKAGE, folder / "fourfold")
    return folder


@pytest.fixture(scope="module")
def copied_later(tmp_path_factory: pytest.TempPathFactory, installation: Path) -> Path:
    """Return a copy whose files have other times."""
    folder = tmp_path_factory.mktemp("later")
    shutil.copytree(
        installation / "fourfold", folder / "fourfold", ignore=shutil.ignore_patterns("*.pyc")
    )
    for path in source_files(folder):
        os.utime(path, (1_000_000_000, 1_000_000_000))
    return folder


@pytest.fixture(scope="module")
def zipped(tmp_path_factory: pytest.TempPathFactory, installation: Path) -> Path:
    """Return a zip archive that contains the package."""
    path = tmp_path_factory.mktemp("zipped") / "app.zip"
    with ZipFile(path, "w") as archive:
        archive.writestr("__main__.py", "")
        for file in source_files(installation):
            archive.write(file, file.relative_to(installation))
    return path


def source_files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.suffix in (".py", ".json"))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "tiny.tflite"
    path.write_bytes(tiny_model())
    return path


@pytest.mark.parametrize("fixture_name", ["copied_later", "zipped"])
def test_exported_cache_is_warm_in_another_installation(
    fixture_name: str,
    installation: Path,
    model: Path,
    device: DeviceInfo,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    other = request.getfixturevalue(fixture_name)
    mine, theirs, exported = tmp_path / "mine", tmp_path / "theirs", tmp_path / "all.fourfold"
    assert run_child(START, installation, model, device.address, mine) == "model"
    run_child(COMMAND, installation, "cache", "--folder", mine, "export", exported)
    run_child(COMMAND, other, "cache", "--folder", theirs, "import", exported)
    moved = shutil.copy(model, tmp_path / "moved.tflite")
    assert run_child(START, other, moved, device.address, theirs) == "store"


@pytest.mark.parametrize("fixture_name", ["copied_later", "zipped"])
def test_prepared_file_is_warm_in_another_installation(
    fixture_name: str,
    installation: Path,
    model: Path,
    device: DeviceInfo,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    other, file = request.getfixturevalue(fixture_name), tmp_path / "app.fourfold"
    run_child(
        COMMAND,
        installation,
        "prepare",
        model,
        "-o",
        file,
        "--device",
        device.address,
        "--only-here",
    )
    cache = tmp_path / "cache"
    assert run_child(START, other, file, device.address, cache) == "file"
    assert not list(cache.glob("entries/*"))  # the binary in the file was used


def test_source_digest_depends_on_content_only(
    installation: Path, copied_later: Path, zipped: Path
) -> None:
    digest = run_child(DIGEST, installation)
    assert run_child(DIGEST, copied_later) == run_child(DIGEST, zipped) == digest
    for name in ("device.py", "ops/relu.py", "codegen/opencl/prelude.py", "backends/probing.py"):
        path = installation / "fourfold" / name
        state, text = path.stat(), path.read_bytes()
        path.write_bytes(text + b"#")
        os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
        assert run_child(DIGEST, installation) != digest, name
        path.write_bytes(text)
        os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert run_child(DIGEST, installation) == digest


def test_unchanged_sources_are_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "sources_state", lambda: "as seen:1")
    monkeypatch.setattr(store, "digest_sources", lambda: ("as seen:1", 3_000_000_000, "digest"))
    assert Store(tmp_path).engine_parts["sources"] == "digest"
    monkeypatch.setattr(store, "digest_sources", lambda: ("other:1", 3_000_000_000, "read again"))
    assert Store(tmp_path).engine_parts["sources"] == "digest"
    monkeypatch.setattr(store, "sources_state", lambda: "other:1")
    assert Store(tmp_path).engine_parts["sources"] == "read again"


def test_version_identifies_a_package_without_source_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(package, "PLAN_PACKAGES", ("no such folder",))
    for function in (package.sources_state, package.digest_sources):
        monkeypatch.setattr(store, function.__name__, function.__wrapped__)
    parts = Store(tmp_path).engine_parts
    assert parts["engine"] == fourfold.__version__
    assert Store(tmp_path / "other").engine_parts == parts
