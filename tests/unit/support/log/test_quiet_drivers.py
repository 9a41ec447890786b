"""Drivers and runtimes that write to standard error are heard in the log, and nowhere else."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
from split_models import split_model

from fourfold.backends.cpu.litert import interpreter
from fourfold.backends.opencl.devices import context_of
from fourfold.backends.opencl.program import build_text
from fourfold.device import DeviceInfo
from fourfold.plan import Program

# What is new to the driver's cache, and has an expression that nobody uses.
UNUSED = "__kernel void unused(__global ulong *x) {{ 3; x[0] = 0x{nonce}; }}"

OPEN = """
import sys, numpy as np, fourfold
with fourfold.Session(sys.argv[1], device="cpu", cache=None) as session:
    session.run(np.zeros((1, 5), np.float32))
"""


def debugged(caplog: pytest.LogCaptureFixture, room: str) -> list[str]:
    found = [one for one in caplog.records if one.name == f"fourfold.{room}"]
    return [one.getMessage() for one in found if one.levelno == logging.DEBUG]


def test_a_compiler_that_warns(
    device: DeviceInfo, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    if device.api != "opencl" or "portable" not in device.platform.lower():
        pytest.skip("only PoCL is known to write while it builds")
    text = UNUSED.format(nonce=os.urandom(8).hex())
    with caplog.at_level(logging.DEBUG, "fourfold"):
        build_text(context_of(device), Program(text, "-cl-std=CL1.2"))
    assert capfd.readouterr() == ("", "")
    lines = debugged(caplog, "backends.opencl")
    assert any(line.endswith("generated.") for line in lines), lines
    assert any("bytes of kernels in " in line for line in lines)


@pytest.mark.skipif(interpreter.runtime() is None, reason="LiteRT is not installed")
def test_litert(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says so once a process, which is why this one is new."""
    path = tmp_path / "split.tflite"
    path.write_bytes(split_model())
    monkeypatch.setenv("FOURFOLD_LOG", "debug")
    command = [sys.executable, "-c", OPEN, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = done.stderr.splitlines()
    assert any(
        " s  backends.cpu.litert: INFO: Created TensorFlow Lite XNNPACK" in line for line in lines
    )
    assert all(" s  " in line for line in lines), lines
