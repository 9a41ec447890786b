"""FloatView: runs operators on quantized values as float ops on the real numbers they represent.

Constants are dequantized once. A computed result is rounded to the grid of its output, as integer
arithmetic would, unless the op can only return numbers that are already on that grid.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import isclose

from fourfold.formats.rule_table import Unconvertible
from fourfold.formats.tflite.operation import Operation, Rule, TFLiteBuilder
from fourfold.formats.tflite.options import BatchMatMulOptions
from fourfold.formats.tflite.records import OperatorRecord, TensorRecord
from fourfold.formats.tflite.schema import CLAMPING
from fourfold.formats.tflite.tensors import quantization_of
from fourfold.ops.dequantize import Dequantize
from fourfold.ops.fake_quantize import FakeQuantize
from fourfold.ops.quantize import Quantize
from fourfold.types import DType, Quantization

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


# Operators that return input elements unchanged, or zeros.
_KEEP_GRID = {
    *("BATCH_TO_SPACE_ND", "BROADCAST_TO", "CONCATENATION", "DEPTH_TO_SPACE", "EXPAND_DIMS"),
    *("DYNAMIC_UPDATE_SLICE", "GATHER", "GATHER_ND", "MAXIMUM", "MAX_POOL_2D", "MINIMUM"),
    *("MIRROR_PAD", "PACK", "PAD", "PADV2", "QUANTIZE", "REDUCE_MAX", "REDUCE_MIN", "RELU"),
    *(
        "READ_VARIABLE",
        "RESHAPE",
        "RESIZE_NEAREST_NEIGHBOR",
        "REVERSE_V2",
        "SELECT",
        "SELECT_V2",
        "SLICE",
    ),
    *("SPACE_TO_BATCH_ND", "SPACE_TO_DEPTH", "SPLIT", "SPLIT_V", "SQUEEZE", "STRIDED_SLICE"),
    *("TILE", "TOPK_V2", "TRANSPOSE", "UNPACK", "ZEROS_LIKE"),
}
_WITHIN = {
    "LSTM": "between its gates",
    "SVDF": "between its two products",
    "UNIDIRECTIONAL_SEQUENCE_LSTM": "between its gates",
    "UNIDIRECTIONAL_SEQUENCE_RNN": "between its steps",
}
# Operators for which LiteRT does not round ties to even: away from zero, or up.
_TIES_FROM_ZERO = frozenset({"AVERAGE_POOL_2D"})
_TIES_UP = frozenset({"ADD", "QUANTIZE", "RESIZE_BILINEAR", "SUB"})
_AS_STORED = frozenset({"BITCAST", "CAST"})  # they read the integers themselves
_CHANGES_GRID = frozenset({"DEQUANTIZE", "QUANTIZE"})
_FLOAT_EPSILON = 2.0**-24  # relative rounding error of float32
_MAX_ERROR = 1e-4  # tolerated error, as a fraction of the range of a result
_BIASES = {"CONV_2D": 2, "DEPTHWISE_CONV_2D": 2, "FULLY_CONNECTED": 2, "TRANSPOSE_CONV": 3}


@dataclass
class FloatView:
    """The tensors of a subgraph as real numbers; `names` are the values of its tensors."""

    builder: TFLiteBuilder
    tensors: Sequence[TensorRecord]
    names: Sequence[str]
    allowed: bool = True
    reals: dict[int, str] = field(default_factory=dict)
    integers: dict[int, str] = field(default_factory=dict)

    def note(self, index: int) -> None:
        """Record the quantization of a value, if it is quantized."""
        quantization = quantization_of(self.tensors[index])
        type = self.builder.types.get(self.names[index])
        if quantization is not None and (type is None or not type.dtype.is_float):
            self.builder.quantization[self.names[index]] = quantization

    def is_needed(self, record: OperatorRecord, rule: Rule) -> bool:
        """Return True if an operator works on quantized values other than weights."""
        constants = self.builder.constants
        read = [index for index in record.inputs if index != -1]
        at_run_time = [index for index in read if self.names[index] not in constants]
        live = [*at_run_time, *(record.outputs if at_run_time else ())]
        fixed = [
            self.tensors[i] for i in read if i not in at_run_time and self.tensors[i].quantized
        ]
        if any(tensor.quantization and tensor.quantization.details for tensor in fixed):
            raise Unconvertible("block-quantized weights are not supported")
        needed = any(self.tensors[index].quantized for index in live)
        if needed and not self.allowed:
            raise Unconvertible("it works on quantized values, and quantized=False was set")
        plain = rule.weights or (rule.moves and not at_run_time)
        return needed or (bool(fixed) and not plain)

    def enter(self, operation: Operation) -> Operation:
        """Return the operation with real inputs and unrounded outputs."""
        record = operation.record
        if record.op in _WITHIN:
            raise Unconvertible(f"a quantized {record.op} also rounds {_WITHIN[record.op]}")
        if record.op in _AS_STORED:
            inputs = tuple(None if i == -1 else self.stored(i) for i in record.inputs)
            return replace(operation, inputs=inputs)
        self._check_sums(record)
        self._scale_bias(record)
        inputs = tuple(None if i == -1 else self._real(i, record.op) for i in record.inputs)
        pairs = zip(record.outputs, operation.outputs, strict=True)
        outputs = tuple(
            self.builder.fresh(f"{name}/exact") if self._rounds(record, index) else name
            for index, name in pairs
        )
        return replace(operation, inputs=inputs, outputs=outputs, clamped=True)

    def leave(self, operation: Operation, outputs: Sequence[str]) -> None:
        """Round the computed outputs to their grids, with the fused activation applied."""
        record = operation.record
        for index, exact, final in zip(record.outputs, operation.outputs, outputs, strict=True):
            if exact != final:
                grid = self._result(record, index)
                assert grid is not None
                attributes = self._rounding(record, grid)
                self.builder.node("fake_quantize", (exact,), attributes, final, operation.name)

    def _rounding(self, record: OperatorRecord, grid: Grid) -> FakeQuantize:
        attributes = grid.fake_quantize
        if record.op in _TIES_FROM_ZERO:
            return replace(attributes, pivot=-grid.zero_point)
        if record.op not in _TIES_UP:
            return attributes
        attributes = replace(attributes, pivot=grid.low)
        before = grid_of(self.tensors[record.inputs[0]])
        if record.op == "QUANTIZE" and before is not None:
            # For integer to integer conversion, LiteRT multiplies by a multiple of 1/256.
            factor = max(round(256 * before.scale / grid.scale), 1) / 256
            attributes = replace(attributes, scale=before.scale / factor, step=grid.scale)
        return attributes

    def stored(self, index: int) -> str:
        """Return a value as the integers of the file, for operators that need them."""
        name, tensor = self.names[index], self.tensors[index]
        real = self.builder.types[name].dtype is DType.F32
        grid = grid_of(tensor) if real and tensor.dtype is not DType.F32 else None
        if grid is None:
            return name
        if not self._exists(self.integers.get(index)):
            output = self.builder.fresh(f"{name}/stored")
            self.builder.node("quantize", (name,), grid.quantize, output, output)
            self.builder.quantization[output] = Quantization((grid.scale,), (grid.zero_point,))
            self.integers[index] = output
        return self.integers[index]

    def _exists(self, name: str | None) -> bool:
        """Return True if a node still writes the value; nodes of refused operators are removed."""
        return any(name in node.outputs for node in self.builder.nodes)

    def _real(self, index: int, op: str) -> str:
        name, tensor = self.names[index], self.tensors[index]
        wide = op in _CHANGES_GRID and tensor.quantization is not None
        if self.builder.types[name].dtype is DType.F32 or not (tensor.quantized or wide):
            return name
        if name in self.builder.constants:
            return self.builder.real(name)
        grid = grid_of(tensor)
        if grid is None:
            return name
        if not self._exists(self.reals.get(index)):
            output = self.builder.fresh(f"{name}/real")
            self.reals[index] = output
            self.builder.node("dequantize", (name,), grid.dequantize, output, output)
        return self.reals[index]

    def _check_sums(self, record: OperatorRecord) -> None:
        """Refuse sums of 16-bit products that float32 cannot represent accurately.

        If large products cancel, the small difference is only exact in integer arithmetic.
        """
        if record.op != "BATCH_MATMUL":
            return
        tensors = [self.tensors[index] for index in (*record.inputs, *record.outputs)]
        if [tensor.dtype for tensor in tensors] != [DType.I16] * 3:
            return
        left, right, result = (grid_of(tensor) for tensor in tensors)
        if left is None or right is None or result is None:
            return
        options = record.options
        turned = isinstance(options, BatchMatMulOptions) and options.adj_x
        shape = tensors[0].shape
        depth = shape[-2 if turned else -1] if len(shape) > 1 else 1
        largest = depth * 2.0**30 * (left.scale * right.scale / result.scale)
        if largest * _FLOAT_EPSILON > _MAX_ERROR * (result.high - result.low):
            raise Unconvertible(
                f"its sums of up to {largest:.0e} steps exceed the precision of float32"
            )

    def _scale_bias(self, record: OperatorRecord) -> None:
        """Set the scale of a bias to that of the products it is added to.

        LiteRT adds the integers directly and ignores the scale in the file.
        """
        index = _BIASES.get(record.op, len(record.inputs))
        if index >= len(record.inputs) or record.inputs[index] == -1:
            return
        name, weights = self.names[record.inputs[index]], self.names[record.inputs[1]]
        quantizations = self.builder.quantization
        grid = grid_of(self.tensors[record.inputs[2 if index == 3 else 0]])
        is_quantized = self.builder.types[name].dtype.is_integer
        if weights not in quantizations or grid is None or not is_quantized:
            return
        scales = tuple(grid.scale * scale for scale in quantizations[weights].scale)
        axis = 0 if len(scales) > 1 else None
        expected = Quantization(scales, (0,) * len(scales), axis)
        if name in quantizations and _is_close(quantizations[name], expected):
            return
        if name in self.builder.reals:
            raise Unconvertible(f"its bias '{name}' is shared with products of another scale")
        quantizations[name] = expected

    def _rounds(self, record: OperatorRecord, output: int) -> bool:
        """Return True if computed numbers may be off the grid of the output."""
        result = self._result(record, output)
        if result is None:
            return False
        sources = [self.tensors[index] for index in record.inputs if index != -1]
        real = any(tensor.dtype is not None and tensor.dtype.is_float for tensor in sources)
        if record.op not in _KEEP_GRID or real:
            return True
        wide = record.op in _CHANGES_GRID
        grids = [grid_of(tensor) for tensor in sources if tensor.quantized or wide]
        return not all(grid is not None and result.holds(grid) for grid in grids)

    def _result(self, record: OperatorRecord, output: int) -> Grid | None:
        tensor = self.tensors[output]
        if not tensor.quantized and record.op != "QUANTIZE":
            return None
        grid = grid_of(tensor)
        return grid and grid.clamped(getattr(record.options, "activation", 0))


def _is_close(one: Quantization, other: Quantization) -> bool:
    """Return True if two quantizations differ only by rounding of their scales."""
    if (one.zero_point, len(one.scale)) != (other.zero_point, len(other.scale)):
        return False
    return all(isclose(a, b, rel_tol=1e-3) for a, b in zip(one.scale, other.scale, strict=True))
