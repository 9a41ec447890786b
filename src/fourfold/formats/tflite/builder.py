"""The graph of a TFLite file under construction: variables, dequantised and changed constants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from fourfold.formats.builder import GraphBuilder
from fourfold.formats.refusal import Unconvertible
from fourfold.types import DType, TensorType, dequantize


@dataclass
class TFLiteBuilder(GraphBuilder):
    """A GraphBuilder that also knows what only TFLite has."""

    reals: dict[str, str] = field(default_factory=dict)  # constants, and the same as f32
    signed: dict[str, str] = field(default_factory=dict)  # constants, and their bytes as i8
    changed: dict[str, np.ndarray] = field(default_factory=dict)  # the file's, for other shapes
    variables: dict[str, TensorType] = field(default_factory=dict)  # what the file has as states
    handles: dict[str, str] = field(default_factory=dict)  # values that stand for a state
    starting: bool = False  # what is assigned now is what states begin with

    def changed_constants(self) -> Mapping[str, np.ndarray]:
        """Constants of the file that must be others for the shapes that the caller has given."""
        return {
            name: array
            for name, array in self.changed.items()
            if not np.array_equal(array, self.constants[name])
        }

    def signed_bytes(self, name: str) -> str:
        """The same bytes as signed numbers around zero, whatever zero point the file gives."""
        if name not in self.signed:
            stored = self.quantization[name]
            signed = self.constant(self.fresh(f"{name}/signed"), self.constants[name].view(np.int8))
            self.quantization[signed] = replace(stored, zero_point=(0,) * len(stored.scale))
            self.signed[name] = signed
        return self.signed[name]

    def real(self, name: str) -> str:
        """The same constant as f32: dequantised, or widened from f16."""
        if name not in self.reals:
            stored, dtype = self.constants[name], self.types[name].dtype
            if not (dtype.is_float or dtype.is_integer):
                raise Unconvertible(f"'{name}' holds {dtype.value}, which no float stands for")
            if not self.budget.take(self.types[name].with_dtype(DType.F32), stored.nbytes):
                raise Unconvertible(f"'{name}' is too large to be dequantised")
            quantization = self.quantization.get(name)
            real = self.constant(self.fresh(f"{name}/float"), dequantize(stored, quantization))
            self.reals[name] = real
            if quantization is not None:
                self.quantization[real] = quantization
        return self.reals[name]
