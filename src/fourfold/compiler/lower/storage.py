"""Chooses the storage of values between kernels: fp32, fp16, or quantized to 8 or 16 bits."""

from __future__ import annotations

from fourfold.codegen.context import KernelOptions
from fourfold.codegen.location import Stored
from fourfold.compiler.lower.half_range import values_beyond_half
from fourfold.compiler.lower.ratios import values_for_logarithms
from fourfold.graph import Graph, Node
from fourfold.ops.base.registry import registry
from fourfold.ops.fake_quantize import FakeQuantize
from fourfold.ops.formula import all_terms
from fourfold.types import DType

MAX_HALF_STEPS = 2048
MAX_FP32_ELEMENTS = 1 << 17
MAX_BYTE_STEPS = 255
KEEPERS = ("pad", "max_pool2d")  # ops whose results are among their inputs, or zero
SUMS = ("conv2d", "depthwise_conv2d", "fully_connected")  # ops that multiply bytes


class Storage:
    """Storage of a graph's values: the dtype, and the scale if they are quantized."""

    def __init__(self, graph: Graph, options: KernelOptions) -> None:
        self._graph, self._options = graph, options
        self._exact = _has_fine_grids(graph)
        halves = options.storage is DType.F16
        exact_values = values_beyond_half(graph) | values_for_logarithms(graph) if halves else ()
        self._in_full = frozenset(exact_values)
        self._ports = {*graph.inputs, *graph.outputs}
        self._makers = {node.outputs[0]: node for node in graph.nodes if len(node.outputs) == 1}

    def of(self, name: str) -> Stored:
        """Return the storage of a value.

        Floats between kernels have the requested precision, inputs and outputs that of the model.
        """
        type_, options = self._graph.types[name], self._options
        if type_.dtype is not DType.F32 or name in self._ports or self._exact:
            return Stored(type_.dtype)
        if options.counts_bytes and (as_bytes := self._bytes(name)) is not None:
            return as_bytes
        if options.keeps_values or name in self._in_full:
            return Stored(DType.F32)
        storage = options.storage_of(type_.elements, MAX_FP32_ELEMENTS)
        counts = options.counts_steps and options.spares and storage is DType.F16
        steps = self._steps(name) if counts else None
        return steps or Stored(storage)

    def _bytes(self, name: str) -> Stored | None:
        """Store integers with at most 256 distinct values as bytes, the lowest as zero."""
        if name not in self._makers:
            return None
        node = self._makers[name]
        if node.op in KEEPERS and not node.tail:
            return self._kept_bytes(str(node.inputs[0]))
        if node.op in ("concat", "gather") and not node.tail and self._is_multiplied(name):
            read = node.inputs if node.op == "concat" else node.inputs[:1]
            parts = {self._kept_bytes(str(part)) for part in read}
            return parts.pop() if len(parts) == 1 else None
        grid = node.tail[-1].attributes if node.tail else node.attributes
        if not isinstance(grid, FakeQuantize) or grid.distance != 1.0:
            return None
        if grid.high - grid.low > MAX_BYTE_STEPS or not grid.low <= 0 <= grid.high:
            return None
        return Stored(DType.U8, 1.0, -grid.low)

    def _is_multiplied(self, name: str) -> bool:
        """Return whether an op that multiplies reads a value, or elements picked from it."""
        for reader in self._graph.readers.get(name, ()):
            picks = reader.op in ("gather", "reshape") and not reader.tail
            if reader.op in SUMS and reader.inputs[0] == name:
                return True
            if picks and self._is_multiplied(reader.outputs[0]):
                return True
        return False

    def _kept_bytes(self, name: str) -> Stored | None:
        """Return the byte storage of an input of an op whose results are among its inputs."""
        if name not in self._makers or name in self._ports:
            return None
        node = self._makers[name]
        reshaped = node.op == "reshape" and not node.tail
        return self._kept_bytes(str(node.inputs[0])) if reshaped else self._bytes(name)

    def _steps(self, name: str) -> Stored | None:
        """Store numbers between two bounds as 16-bit steps of equal size, finer than fp16."""
        bounds = _bounds(self._makers[name]) if name in self._makers else None
        if bounds is None:
            return None
        low, high = bounds
        return Stored(DType.I16, high / 32767) if low < 0 else Stored(DType.U16, high / 65535)


def _bounds(node: Node) -> tuple[float, float] | None:
    """Return the bounds of a node's result, if its op or the last step of its tail has any."""
    last = node.tail[-1].op if node.tail else node.op
    return registry()[last].bounds


def all_attributes(graph: Graph) -> list[object]:
    steps = [step.attributes for node in graph.nodes for step in node.tail]
    attributes = [*steps, *(node.attributes for node in graph.nodes)]
    return [*attributes, *(term.attributes for item in attributes for term in all_terms(item))]


def _has_fine_grids(graph: Graph) -> bool:
    """Return whether numbers are rounded to more steps than fp16 can distinguish."""
    grids = [item for item in all_attributes(graph) if isinstance(item, FakeQuantize)]
    return any(grid.high - grid.low > MAX_HALF_STEPS for grid in grids)
