"""Names of the targets that a part of a model can run on: the device, or a CPU engine."""

from __future__ import annotations

GPU = "gpu"
NUMPY = "numpy"  # reference definitions of the operators, which run graph nodes


def runs_operators(target: str) -> bool:
    """Return True for the CPU engine of a format, which runs operators as stored in the file."""
    return target not in (GPU, NUMPY)
