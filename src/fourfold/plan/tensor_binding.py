"""How a value of a graph is reached in a model file that a CPU engine runs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fourfold.pixels import Pixels
from fourfold.types import DType, Quantization, TensorType, dequantize, to_integers

Grid = tuple[Quantization, DType]
TensorId = int | str  # how a format's own files and engines tell tensors apart


@dataclass(frozen=True)
class TensorBinding:
    """A value that goes in or out: its tensor, the graph's type, and the file's own form of it."""

    name: str
    tensor: TensorId
    type: TensorType | None  # None where only the file has the value
    grid: Grid | None = None
    pixels: Pixels | None = None  # where bytes come in for the file's real numbers

    @property
    def converts(self) -> bool:
        """Whether the caller has pixels, or the graph real numbers where the file has integers."""
        real = self.type is not None and self.type.dtype is DType.F32
        return self.pixels is not None or (self.grid is not None and real)

    def into_file(self, array: np.ndarray) -> np.ndarray:
        if self.pixels is not None:
            assert self.type is not None
            return self.pixels.numbers(array, self.type)
        if self.grid is None or not self.converts:
            return array
        return to_integers(array, *self.grid)

    def into_graph(self, array: np.ndarray) -> np.ndarray:
        if self.grid is None or not self.converts:
            return array
        return dequantize(array, self.grid[0])
