"""Bindings of graph values to the tensors of a model file that a CPU engine runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fourfold.plan.record import read_quantization
from fourfold.processing.pixels import Pixels
from fourfold.types import DType, Quantization, TensorType, dequantize, to_integers

Grid = tuple[Quantization, DType]
TensorId = int | str  # identifies a tensor in a format's files and engines


@dataclass(frozen=True)
class TensorBinding:
    """A value that enters or leaves the file: its tensor, its type in the graph, and its form in
    the file.
    """

    name: str
    tensor: TensorId
    type: TensorType | None  # None if only the file has the value
    grid: Grid | None = None
    pixels: Pixels | None = None  # if the caller passes bytes for the file's real numbers

    @property
    def converts(self) -> bool:
        """True if the caller passes pixels, or if the graph has real numbers where the file has
        integers.
        """
        real = self.type is not None and self.type.dtype is DType.F32
        return self.pixels is not None or (self.grid is not None and real)

    def into_file(self, array: np.ndarray) -> np.ndarray:
        if self.pixels is not None:
            assert self.type is not None
            return self.pixels.numbers(array, self.type)
        if self.grid is None or not self.converts:
            return array
        quantization, dtype = self.grid
        return to_integers(array, quantization, dtype)

    def into_graph(self, array: np.ndarray) -> np.ndarray:
        if self.grid is None or not self.converts:
            return array
        return dequantize(array, self.grid[0])

    def to_record(self) -> list[Any]:
        """Return the binding as JSON can hold it."""
        grid = None
        if self.grid is not None:
            quantization, dtype = self.grid
            scale, zero_point = list(quantization.scale), list(quantization.zero_point)
            grid = [scale, zero_point, quantization.axis, dtype.value]
        type_text = None if self.type is None else str(self.type)
        pixels_text = None if self.pixels is None else str(self.pixels)
        return [self.name, self.tensor, type_text, grid, pixels_text]

    @staticmethod
    def from_record(record: Sequence[Any]) -> TensorBinding:
        """Read what `to_record` wrote; ValueError or TypeError for anything else."""
        name, tensor, type_text, scales, pixels_text = record
        grid: Grid | None = None
        if scales is not None:
            scale, zero_point, axis, dtype = scales
            grid = (read_quantization(scale, zero_point, axis), DType(dtype))
        return TensorBinding(
            name=str(name),
            tensor=tensor if isinstance(tensor, str) else int(tensor),
            type=None if type_text is None else TensorType.parse(type_text),
            grid=grid,
            pixels=None if pixels_text is None else Pixels.parse(pixels_text),
        )
