"""Measure start time, from process start to first result, for three kinds of start.

The first start compiles plan and kernels, the next one reads them from the cache, and the last one
opens a prepared file. Each runs in its own process with a fresh cache folder.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

FIRST, NEXT, PREPARED = "first start", "cached start", "prepared file"
OPEN = """
import sys
import numpy as np
import fourfold
session = fourfold.Session(sys.argv[1], device=sys.argv[2], precision=sys.argv[3])
session.run([np.zeros(info.shape, info.dtype) for info in session.inputs])
print("done", flush=True)
"""
PREPARE = "import sys; from fourfold.cli import main; main(sys.argv[1:])"


def starts(model: Path, device: str, precision: str) -> dict[str, float]:
    """Return seconds from process start to first result."""
    with TemporaryDirectory() as folder:
        root = Path(folder)
        kernels = root / "kernels"
        kernels.mkdir()
        environment = {
            **os.environ,
            "FOURFOLD_CACHE": str(root / "store"),
            "POCL_CACHE_DIR": str(kernels),
            "CUDA_CACHE_PATH": str(kernels),
        }
        seconds = {
            FIRST: until_result(str(model), device, precision, environment),
            NEXT: until_result(str(model), device, precision, environment),
        }
        file = str(root / "model.fourfold")
        options = ["--precision", precision, "--device", device, "--only-here", "-o", file]
        command = [sys.executable, "-c", PREPARE, "prepare", str(model), *options]
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
        seconds[PREPARED] = until_result(file, device, precision, environment)
        return seconds


def until_result(source: str, device: str, precision: str, environment: dict[str, str]) -> float:
    began = time.perf_counter()
    command = [sys.executable, "-c", OPEN, source, device, precision]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        seconds = time.perf_counter() - began
    if line.strip() != "done" or process.returncode:
        raise RuntimeError(f"the start of {source} failed; see its output above")
    return seconds
