"""Grid: the real numbers that the integers of a quantized tensor represent."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from fourfold.formats.refusal import Unconvertible
from fourfold.formats.tflite.constants import quantization_of
from fourfold.formats.tflite.records import TensorRecord
from fourfold.formats.tflite.schema import CLAMPING
from fourfold.ops.dequantize import Dequantize
from fourfold.ops.fake_quantize import FakeQuantize
from fourfold.ops.quantize import Quantize
from fourfold.types import DType

# First and last integer of each type; for i32, the last one that float32 represents exactly.
_LIMITS = {
    DType.I8: (-128, 127),
    DType.U8: (0, 255),
    DType.I16: (-32768, 32767),
    DType.I32: (-(2**31), 2**31 - 128),
}


@dataclass(frozen=True)
class Grid:
    """real = (stored - zero_point) * scale; `low` and `high` are relative to the zero point."""

    scale: float
    zero_point: int
    low: int
    high: int
    dtype: DType

    @property
    def fake_quantize(self) -> FakeQuantize:
        return FakeQuantize(self.scale, self.low, self.high)

    @property
    def quantize(self) -> Quantize:
        return Quantize(self.scale, self.low, self.high, self.zero_point, self.dtype)

    @property
    def dequantize(self) -> Dequantize:
        return Dequantize(self.scale, self.zero_point)

    def holds(self, other: Grid) -> bool:
        """Return True if this grid contains every number of the other one."""
        same = math.isclose(self.scale, other.scale, rel_tol=1e-6)
        return same and self.low <= other.low and other.high <= self.high

    def clamped(self, activation: int) -> Grid:
        """Return the grid after a fused activation, which limits the integers."""
        if activation not in CLAMPING:
            return self
        minimum, maximum = CLAMPING[activation]
        low = max(self.low, round(minimum / self.scale))
        high = self.high if math.isinf(maximum) else min(self.high, round(maximum / self.scale))
        return replace(self, low=min(low, self.high), high=max(high, self.low))


def grid_of(tensor: TensorRecord) -> Grid | None:
    """Return the grid of a tensor; None if it is not quantized."""
    quantization = quantization_of(tensor)
    if quantization is None or tensor.dtype not in _LIMITS:
        return None
    if quantization.axis is not None:
        raise Unconvertible(f"'{tensor.name}' is an activation with a scale per channel")
    low, high = _LIMITS[tensor.dtype]
    scale, zero_point = quantization.scale[0], quantization.zero_point[0]
    if scale <= 0 or math.isinf(1 / scale) or not low <= zero_point <= high:
        raise Unconvertible(
            f"'{tensor.name}' has an invalid scale {scale} or zero point {zero_point}"
        )
    return Grid(scale, zero_point, low - zero_point, high - zero_point, tensor.dtype)
