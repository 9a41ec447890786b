"""Where a part of a model can run: on the device, or in a CPU engine, by the engine's name."""

from __future__ import annotations

GPU = "gpu"
NUMPY = "numpy"  # the ops' own definitions, which run nodes of graphs


def runs_operators(target: str) -> bool:
    """Whether it runs operators as the file has them: the CPU engine of the file's format does."""
    return target not in (GPU, NUMPY)
