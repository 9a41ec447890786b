"""Which implementations are found, how each is used alone, and what is said of those missing."""

from __future__ import annotations

from pathlib import Path

import pytest
from devices import implementations
from devices.implementations import (
    INTEL,
    OCLGRIND,
    POCL,
    RUSTICL,
    Implementation,
    installed,
    missing,
)


@pytest.fixture(autouse=True)
def _nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither wheels nor Oclgrind, whatever this machine has."""
    monkeypatch.setattr(implementations, "_files", lambda package, start: [])
    monkeypatch.setattr(implementations.shutil, "which", lambda name: None)


def vendors(folder: Path, **libraries: str) -> Path:
    for name, library in libraries.items():
        (folder / f"{name}.icd").write_text(library)
    return folder


def test_what_the_system_lists(tmp_path: Path) -> None:
    libraries = {"pocl": "libpocl.so.2.10.0", "rusticl": "libRusticlOpenCL.so.1\n"}
    found = installed(vendors(tmp_path, **libraries, nvidia="libnvidia-opencl.so.1"))
    assert [one.name for one in found] == ["nvidia-opencl", "PoCL", "rusticl"]
    assert [one.library for one in found][1:] == ["libpocl.so.2.10.0", "libRusticlOpenCL.so.1"]
    assert [one.kind for one in found][1:] == [POCL, RUSTICL]


def test_wheels_and_what_lists_itself_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = tmp_path / "lib" / "oclgrind" / "liboclgrind-rt-icd.so"
    driver.parent.mkdir(parents=True)
    driver.touch()
    monkeypatch.setattr(implementations, "_files", lambda package, start: [tmp_path / start])
    monkeypatch.setattr(implementations.shutil, "which", lambda name: f"{tmp_path}/bin/{name}")
    found = {one.name: one for one in installed(tmp_path / "none")}
    assert [*found] == ["PoCL of PyPI", "Intel", "Oclgrind"]
    assert found["PoCL of PyPI"].library == ""
    assert found["Intel"].library == str(tmp_path / "libintelocl.so")
    assert found["Oclgrind"].library == str(driver)


def test_a_folder_that_was_told_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OCL_ICD_VENDORS", str(vendors(tmp_path, intel="/opt/libintelocl.so")))
    assert installed() == [Implementation("Intel", "/opt/libintelocl.so", INTEL)]


def test_missing_ones_come_with_a_command(tmp_path: Path) -> None:
    told = missing(installed(vendors(tmp_path, pocl="libpocl.so.2")))
    assert set(told) == {"PoCL of PyPI", "rusticl", "Intel", "Oclgrind"}
    assert all(command.split()[1] == "install" for command in told.values())


def test_alone_with_empty_caches(tmp_path: Path) -> None:
    where = Implementation("PoCL", "libpocl.so.2", POCL).environment(tmp_path / "a", 2)
    listed = [*Path(where["OCL_ICD_VENDORS"]).iterdir()]
    assert [file.read_text().strip() for file in listed] == ["libpocl.so.2"]
    assert where["POCL_MAX_PTHREAD_COUNT"] == "2"
    assert [*Path(where["POCL_CACHE_DIR"]).iterdir()] == []
    simulated = Implementation("Oclgrind", "", OCLGRIND).environment(tmp_path / "b", 1)
    assert [*Path(simulated["OCL_ICD_VENDORS"]).iterdir()] == []
    assert simulated["OCLGRIND_DATA_RACES"] == simulated["OCLGRIND_NUM_THREADS"] == "1"
