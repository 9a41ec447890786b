"""LiteRT's CPU interpreter with XNNPACK."""

from __future__ import annotations

from fourfold.cli._litert import open_litert
from peers import Missing, Opened, Task


def open_peer(task: Task) -> Opened:
    run = open_litert(str(task.model), task.arrays(), task.threads)
    if run is None:
        raise Missing("ai-edge-litert is not installed")
    return Opened(run)
