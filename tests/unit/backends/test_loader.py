"""Selection of the OpenCL loader library: on each system, with and without pyopencl."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from fourfold.backends.opencl.binding import calls

SYSTEM = ["libOpenCL.so.1", "libOpenCL.so"]
FRAMEWORK = "/System/Library/Frameworks/OpenCL.framework/OpenCL"


@pytest.fixture
def pyopencl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder like an installed pyopencl wheel, found before any other."""
    folder = tmp_path / "pyopencl"
    folder.mkdir()
    (folder / "__init__.py").write_text("raise ImportError('it must not be imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYOPENCL_HOME", "")
    return folder


@pytest.fixture
def fresh() -> Iterator[None]:
    calls._path.cache_clear()
    yield
    calls._path.cache_clear()


def test_linux_prefers_the_loader_of_pyopencl(
    pyopencl: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    module = pyopencl / f"_cl{EXTENSION_SUFFIXES[0]}"
    module.write_bytes(b"")
    assert list(calls._candidates()) == [str(module), *SYSTEM]
    assert os.environ["PYOPENCL_HOME"] == str(pyopencl)  # where that loader looks for drivers


def test_linux_uses_the_system_loader_without_pyopencl(
    pyopencl: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    assert list(calls._candidates()) == SYSTEM
    assert os.environ["PYOPENCL_HOME"] == ""
    monkeypatch.setattr(calls, "_pyopencl", lambda: None)
    assert list(calls._candidates()) == SYSTEM


@pytest.mark.parametrize(("platform", "path"), [("win32", "OpenCL.dll"), ("darwin", FRAMEWORK)])
def test_other_systems_use_their_own_loader(
    platform: str, path: str, pyopencl: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    (pyopencl / f"_cl{EXTENSION_SUFFIXES[0]}").write_bytes(b"")
    assert list(calls._candidates()) == [path]


@pytest.mark.usefixtures("fresh")
def test_uses_the_first_loadable_library(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def load(path: str) -> None:
        tried.append(path)
        if path != "good.so":
            raise OSError(f"{path}: no such file")

    monkeypatch.setattr(calls, "CDLL", load)
    monkeypatch.setattr(calls, "_candidates", lambda: iter(("bad.so", "good.so", "other.so")))
    assert calls._path() == "good.so"
    assert tried == ["bad.so", "good.so"]


@pytest.mark.usefixtures("fresh")
def test_error_without_a_library_lists_all_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "_candidates", lambda: iter(("no-such-a.so", "no-such-b.so")))
    with pytest.raises(OSError, match=r"no-such-a\.so.*no-such-b\.so"):
        calls._path()
