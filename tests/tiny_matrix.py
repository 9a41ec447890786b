"""A model of one matrix, for tests of what is around it."""

from __future__ import annotations

import numpy as np
from tflite_writer import Operator, Tensor, write

WEIGHTS = np.arange(12, dtype=np.float32).reshape(3, 4) / 7


def matrix(repeat: bool = False) -> bytes:
    """y = x times WEIGHTS, and once more under the same name where `repeat` is set."""
    outputs = ["y", "y"] if repeat else ["y"]
    return write(
        [Tensor("x", (2, 4)), Tensor("w", (3, 4), data=WEIGHTS), Tensor("y", (2, 3))],
        [Operator("FULLY_CONNECTED", ["x", "w", None], ["y"], "FullyConnectedOptions")],
        inputs=["x"],
        outputs=outputs,
    )


def numbers(seed: int, rows: int = 2) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, (rows, 4)).astype(np.float32)
