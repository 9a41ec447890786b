"""LiteRT's CPU interpreter with XNNPACK."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fourfold.backends.cpu.litert import ENGINE
from fourfold.backends.cpu.litert.interpreter import open_file
from fourfold.backends.cpu.protocol import RunModel
from peers import Missing, Opened, Task


def open_litert(model: str, inputs: Sequence[np.ndarray], threads: int) -> RunModel | None:
    """Return a function that runs the model once; None if LiteRT is not installed."""
    if not ENGINE.installed():
        return None
    return open_file(Path(model).read_bytes(), inputs, threads)


def open_peer(task: Task) -> Opened:
    run = open_litert(str(task.model), task.arrays(), task.threads)
    if run is None:
        raise Missing("ai-edge-litert is not installed")
    return Opened(run)
