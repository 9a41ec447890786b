"""Output of drivers and runtimes on standard error appears only in the log."""

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

# A kernel that is not in the driver's cache and has an unused expression.
UNUSED = "__kernel void unused(__global ulong *x) {{ 3; x[0] = 0x{nonce}; }}"

OPEN = """
import sys, numpy as np, fourfold
with fourfold.Session(sys.argv[1], device="cpu", cache=None) as session:
    session.run(np.zeros((1, 5), np.float32))
"""


def logged_lines(caplog: pytest.LogCaptureFixture, logger_name: str) -> list[str]:
    results = [one for one in caplog.records if one.name == f"fourfold.{logger_name}"]
    return [one.getMessage() for one in results if one.levelno == logging.DEBUG]


def test_logs_compiler_warnings(
    device: DeviceInfo, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    if device.api != "opencl" or "portable" not in device.platform.lower():
        pytest.skip("only PoCL is known to write while it builds")
    text = UNUSED.format(nonce=os.urandom(8).hex())
    with caplog.at_level(logging.DEBUG, "fourfold"):
        build_text(context_of(device), Program(text, "-cl-std=CL1.2"))
    assert capfd.readouterr() == ("", "")
    lines = logged_lines(caplog, "backends.opencl")
    assert any(line.endswith("generated.") for line in lines), lines
    assert any("bytes of kernels in " in line for line in lines)


@pytest.mark.skipif(interpreter.runtime() is None, reason="LiteRT is not installed")
def test_logs_litert_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """LiteRT writes this message once per process, so the test starts a new one."""
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
