"""fourfold itself, through Session: from NumPy, from bytes, from the device's memory."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from setting import relative_error

import fourfold
from fourfold.errors import FourfoldError
from fourfold.runtime.device_memory import fresh_array
from peers import MEAN, STD, Missing, Opened, Task, picture_of

MAX_ERROR = {"fp32": 1e-4}  # between bytes and floats, relative to an output's range
MAX_FP16_ERROR = 2e-2
Call = Callable[[], object]


def open_peer(task: Task) -> Opened:
    session = _session(task)
    arrays, plan, player = task.arrays(), session.plan, session._instance.executor.player
    facts = {
        "launches": len(plan.launches),
        "stages": plan.stages,
        "precision": plan.precision,
        "api": session.device.api,
    }
    device = player.replay if hasattr(player, "replay") else None
    ways = {
        "bytes": partial(_from_bytes, task, session),
        "tensors": partial(_on_device, session, arrays),
        "torch": partial(_from_torch, session, arrays),
    }

    def run() -> list[np.ndarray]:
        return list(session.run(arrays).values())

    return Opened(run, device=device, facts=facts, ways=ways)


def _session(task: Task, pixels: fourfold.Pixels | None = None) -> fourfold.Session:
    shapes, precision = task.shapes, task.precision
    if not task.prepared:
        return fourfold.Session(task.model, task.device, precision, shapes=shapes, pixels=pixels)
    with tempfile.TemporaryDirectory() as folder:
        file = _prepared_file(task, Path(folder), pixels)
        # The prepared file contains the pixels option.
        return fourfold.Session(file, task.device, precision, shapes=shapes)


def _prepared_file(task: Task, folder: Path, pixels: fourfold.Pixels | None) -> Path:
    file = folder / "model.fourfold"
    words = ["prepare", str(task.model), "-o", str(file), "--only-here", "--device", task.device]
    words += ["--precision", task.precision]
    for name, sizes in task.shapes.items():
        words += ["--shape", f"{name}={','.join(map(str, sizes))}"]
    if pixels is not None:
        words += ["--pixels", pixels.order, "--mean", str(MEAN), "--std", str(STD)]
    process = subprocess.run(
        [sys.executable, "-m", "fourfold", *words], capture_output=True, text=True, check=False
    )
    if process.returncode:
        raise Missing(f"preparing failed: {process.stderr.strip()[:200]}")
    return file


def _from_bytes(task: Task, plain: fourfold.Session) -> Call:
    """Run on an image as bytes, after checking that floats give the same result."""
    picture = picture_of(task)
    session = _session(task, fourfold.Pixels(MEAN, STD, "rgb"))
    floats = (picture.astype(np.float32) - np.float32(MEAN)) / np.float32(STD)
    error = relative_error(list(session.run(picture).values()), list(plain.run(floats).values()))
    if not error < MAX_ERROR.get(plain.precision, MAX_FP16_ERROR):
        raise Missing(f"bytes and floats give different results: the error is {error:.1e}")
    return lambda: session.run(picture)


def _on_device(session: fourfold.Session, arrays: list[np.ndarray]) -> Call:
    """Run with inputs and outputs in device memory, and wait until the run is done."""
    inputs = []
    for info, array in zip(session.inputs, arrays, strict=True):
        inputs.append(fresh_array(session.device, info))
        inputs[-1].memory.write(array)
    results = session.run(inputs, keep_on_device=True)
    return lambda: session.run(inputs, out=results)


def _from_torch(session: fourfold.Session, arrays: list[np.ndarray]) -> Call:
    """Run with PyTorch tensors on the GPU as inputs and outputs."""
    if session.device.api != "cuda":
        raise Missing("PyTorch tensors on the GPU require CUDA")
    try:
        import torch
    except ImportError as error:
        raise Missing("torch is not installed") from error
    expected = session.run(arrays)
    inputs = [torch.from_numpy(array).cuda() for array in arrays]
    results: dict[str, Any] = {
        name: torch.empty(array.shape, dtype=torch.from_numpy(array).dtype, device="cuda")
        for name, array in expected.items()
    }
    torch.cuda.synchronize()
    try:
        session.run(inputs, out=results)
    except FourfoldError as error:
        raise Missing(str(error).splitlines()[0]) from error
    outputs = [one.cpu().numpy() for one in results.values()]
    if relative_error(outputs, list(expected.values())) != 0:
        raise Missing("tensors and arrays give different results")
    return lambda: session.run(inputs, out=results)
