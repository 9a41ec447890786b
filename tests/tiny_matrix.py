"""A model of one matrix product."""

from __future__ import annotations

import numpy as np
from tflite_writer import Operator, Tensor, write

WEIGHTS = np.arange(12, dtype=np.float32).reshape(3, 4) / 7


def matrix(repeat: bool = False) -> bytes:
    """Return y = x times WEIGHTS, twice under the same name if `repeat` is set."""
    outputs = ["y", "y"] if repeat else ["y"]
    return write(
        [Tensor("x", (2, 4)), Tensor("w", (3, 4), data=WEIGHTS), Tensor("y", (2, 3))],
        [Operator("FULLY_CONNECTED", ["x", "w", None], ["y"], "FullyConnectedOptions")],
        inputs=["x"],
        outputs=outputs,
    )


def numbers(seed: int, rows: int = 2) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, (rows, 4)).astype(np.float32)
