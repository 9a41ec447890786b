"""Detection of OpenCL implementations, their isolated use, and reports of missing ones."""

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
    """Hide wheels and Oclgrind, if this machine has them."""
    monkeypatch.setattr(implementations, "_files", lambda package, start: [])
    monkeypatch.setattr(implementations.shutil, "which", lambda name: None)


def vendors(folder: Path, **libraries: str) -> Path:
    for name, library in libraries.items():
        (folder / f"{name}.icd").write_text(library)
    return folder


def test_finds_implementations_listed_by_the_system(tmp_path: Path) -> None:
    libraries = {"pocl": "libpocl.so.2.10.0", "rusticl": "libRusticlOpenCL.so.1\n"}
    result = installed(vendors(tmp_path, **libraries, nvidia="libnvidia-opencl.so.1"))
    assert [one.name for one in result] == ["nvidia-opencl", "PoCL", "rusticl"]
    assert [one.library for one in result][1:] == ["libpocl.so.2.10.0", "libRusticlOpenCL.so.1"]
    assert [one.kind for one in result][1:] == [POCL, RUSTICL]


def test_finds_wheels_and_unlisted_implementations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = tmp_path / "lib" / "oclgrind" / "liboclgrind-rt-icd.so"
    driver.parent.mkdir(parents=True)
    driver.touch()
    monkeypatch.setattr(implementations, "_files", lambda package, start: [tmp_path / start])
    monkeypatch.setattr(implementations.shutil, "which", lambda name: f"{tmp_path}/bin/{name}")
    results = {one.name: one for one in installed(tmp_path / "none")}
    assert [*results] == ["PoCL of PyPI", "Intel", "Oclgrind"]
    assert results["PoCL of PyPI"].library == ""
    assert results["Intel"].library == str(tmp_path / "libintelocl.so")
    assert results["Oclgrind"].library == str(driver)


def test_environment_sets_the_vendor_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OCL_ICD_VENDORS", str(vendors(tmp_path, intel="/opt/libintelocl.so")))
    assert installed() == [Implementation("Intel", "/opt/libintelocl.so", INTEL)]


def test_missing_implementations_have_an_install_command(tmp_path: Path) -> None:
    commands = missing(installed(vendors(tmp_path, pocl="libpocl.so.2")))
    assert set(commands) == {"PoCL of PyPI", "rusticl", "Intel", "Oclgrind"}
    assert all(command.split()[1] == "install" for command in commands.values())


def test_environment_isolates_an_implementation(tmp_path: Path) -> None:
    where = Implementation("PoCL", "libpocl.so.2", POCL).environment(tmp_path / "a", 2)
    listed = [*Path(where["OCL_ICD_VENDORS"]).iterdir()]
    assert [file.read_text().strip() for file in listed] == ["libpocl.so.2"]
    assert where["POCL_MAX_PTHREAD_COUNT"] == "2"
    assert [*Path(where["POCL_CACHE_DIR"]).iterdir()] == []
    simulated = Implementation("Oclgrind", "", OCLGRIND).environment(tmp_path / "b", 1)
    assert [*Path(simulated["OCL_ICD_VENDORS"]).iterdir()] == []
    assert simulated["OCLGRIND_DATA_RACES"] == simulated["OCLGRIND_NUM_THREADS"] == "1"
