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

APART = {"fp32": 1e-4}  # of an output's range, from bytes instead of floats; else
HALVES_APART = 2e-2
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
        # What is prepared says how it takes pictures.
        return fourfold.Session(file, task.device, precision, shapes=shapes)


def _prepared_file(task: Task, folder: Path, pixels: fourfold.Pixels | None) -> Path:
    file = folder / "model.fourfold"
    words = ["prepare", str(task.model), "-o", str(file), "--only-here", "--device", task.device]
    words += ["--precision", task.precision]
    for name, sizes in task.shapes.items():
        words += ["--shape", f"{name}={','.join(map(str, sizes))}"]
    if pixels is not None:
        words += ["--pixels", pixels.order, "--mean", str(MEAN), "--std", str(STD)]
    made = subprocess.run(
        [sys.executable, "-m", "fourfold", *words], capture_output=True, text=True, check=False
    )
    if made.returncode:
        raise Missing(f"preparing failed: {made.stderr.strip()[:200]}")
    return file


def _from_bytes(task: Task, plain: fourfold.Session) -> Call:
    """A picture as bytes, scaled as it is read; what comes of it is that of the floats."""
    picture = picture_of(task)
    session = _session(task, fourfold.Pixels(MEAN, STD, "rgb"))
    floats = (picture.astype(np.float32) - np.float32(MEAN)) / np.float32(STD)
    error = relative_error(list(session.run(picture).values()), list(plain.run(floats).values()))
    if not error < APART.get(plain.precision, HALVES_APART):
        raise Missing(f"bytes give another result than floats: {error:.1e} apart")
    return lambda: session.run(picture)


def _on_device(session: fourfold.Session, arrays: list[np.ndarray]) -> Call:
    """Memory of the device in and out, and all of it done when the call returns."""
    given = []
    for info, array in zip(session.inputs, arrays, strict=True):
        given.append(fresh_array(session.device, info))
        given[-1].memory.write(array)
    results = session.run(given, keep_on_device=True)
    return lambda: session.run(given, out=results)


def _from_torch(session: fourfold.Session, arrays: list[np.ndarray]) -> Call:
    """PyTorch's own tensors on the GPU, in and out, where a session takes them."""
    if session.device.api != "cuda":
        raise Missing("only CUDA takes PyTorch's tensors where they are")
    try:
        import torch
    except ImportError as error:
        raise Missing("torch is not installed") from error
    expected = session.run(arrays)
    given = [torch.from_numpy(array).cuda() for array in arrays]
    results: dict[str, Any] = {
        name: torch.empty(array.shape, dtype=torch.from_numpy(array).dtype, device="cuda")
        for name, array in expected.items()
    }
    torch.cuda.synchronize()
    try:
        session.run(given, out=results)
    except FourfoldError as error:
        raise Missing(str(error).splitlines()[0]) from error
    found = [one.cpu().numpy() for one in results.values()]
    if relative_error(found, list(expected.values())) != 0:
        raise Missing("tensors give another result than arrays")
    return lambda: session.run(given, out=results)
