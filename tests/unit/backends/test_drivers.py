"""Broken OpenCL drivers, or drivers without devices, do not affect others."""

from __future__ import annotations

import ctypes.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fourfold.device import DeviceInfo

LIST = """
import fourfold
print(*(f"{info.name} / {info.driver}" for info in fourfold.devices()), sep="\\n")
"""
NO_DRIVER = ctypes.util.find_library("m") or "libm.so.6"  # a library that is no OpenCL driver


def list_devices(vendors: Path) -> list[str]:
    environment = {**os.environ, "OCL_ICD_VENDORS": str(vendors)}
    command = [sys.executable, "-c", LIST]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.fixture
def vendors(tmp_path: Path) -> Path:
    """Return the folder that the loader reads, with the driver of the tested device in it."""
    folder = tmp_path / "vendors"
    folder.mkdir()
    for file in Path(os.environ.get("OCL_ICD_VENDORS", "/etc/OpenCL/vendors")).glob("*.icd"):
        (folder / file.name).write_bytes(file.read_bytes())
    return folder


@pytest.mark.parametrize(
    "content", ["/nowhere/libabsent.so\n", f"{NO_DRIVER}\n", "", "/tmp\n"], ids=repr
)
def test_broken_driver_does_not_affect_others(
    content: str, device: DeviceInfo, vendors: Path
) -> None:
    before = list_devices(vendors)
    assert f"{device.name} / {device.driver}" in before
    for name in ("0-first.icd", "zz-last.icd"):
        (vendors / name).write_text(content)
    assert list_devices(vendors) == before
