"""TFLiteBuilder: adds variables, dequantized and changed constants to a GraphBuilder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from fourfold.formats.builder import GraphBuilder
from fourfold.formats.refusal import Unconvertible
from fourfold.types import DType, TensorType, dequantize


@dataclass
class TFLiteBuilder(GraphBuilder):
    """A GraphBuilder with TFLite's variables and quantized constants."""

    reals: dict[str, str] = field(default_factory=dict)  # constants and their float32 form
    signed: dict[str, str] = field(default_factory=dict)  # constants and their bytes as int8
    # constants adapted to other shapes
    changed: dict[str, np.ndarray] = field(default_factory=dict)
    variables: dict[str, TensorType] = field(default_factory=dict)  # states of the file
    handles: dict[str, str] = field(default_factory=dict)  # values that refer to a state
    starting: bool = False  # assignments set initial values of states

    def changed_constants(self) -> Mapping[str, np.ndarray]:
        """Return constants of the file that must change for the caller's shapes."""
        return {
            name: array
            for name, array in self.changed.items()
            if not np.array_equal(array, self.constants[name])
        }

    def signed_bytes(self, name: str) -> str:
        """Return a constant's bytes as int8 with a zero point of zero, whatever the file has."""
        if name not in self.signed:
            stored = self.quantization[name]
            signed = self.constant(self.fresh(f"{name}/signed"), self.constants[name].view(np.int8))
            self.quantization[signed] = replace(stored, zero_point=(0,) * len(stored.scale))
            self.signed[name] = signed
        return self.signed[name]

    def real(self, name: str) -> str:
        """Return a constant as float32: dequantized, or widened from float16."""
        if name not in self.reals:
            stored, dtype = self.constants[name], self.types[name].dtype
            if not (dtype.is_float or dtype.is_integer):
                raise Unconvertible(
                    f"'{name}' holds {dtype.value} values, which cannot become floats"
                )
            if not self.budget.take(self.types[name].with_dtype(DType.F32), stored.nbytes):
                raise Unconvertible(f"'{name}' is too large to dequantize")
            quantization = self.quantization.get(name)
            real = self.constant(self.fresh(f"{name}/float"), dequantize(stored, quantization))
            self.reals[name] = real
            if quantization is not None:
                self.quantization[real] = quantization
        return self.reals[name]
