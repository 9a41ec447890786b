"""Names of the targets that a part of a model can run on: the device, or a CPU engine."""

from __future__ import annotations

GPU = "gpu"
NUMPY = "numpy"  # reference definitions of the operators, which run graph nodes


def runs_operators(target: str) -> bool:
    """Return True if a target runs operators as stored in the file: the CPU engine of its format."""
    return target not in (GPU, NUMPY)
