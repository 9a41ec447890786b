"""Chooses the storage of values between kernels: fp32, fp16, or quantized to 8 or 16 bits.

A logarithm makes small numbers as important as large ones. The magnitudes of a spectrum are sums in
which most terms cancel: rounded to fp16, the error is relative to the largest term and may exceed a
small result. Therefore the operand of a logarithm is computed in fp32, with everything that leads
to it by sums, products and magnitudes. The search stops at an activation, because its result is not
a difference of larger numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Set

from fourfold.codegen.context import KernelOptions
from fourfold.codegen.location import Stored
from fourfold.compiler.lower.half_range import values_beyond_half
from fourfold.graph import Graph, Node
from fourfold.ops.base import registry
from fourfold.ops.fake_quantize import FakeQuantize
from fourfold.ops.formula import all_terms
from fourfold.ops.kernels.joined import Joined
from fourfold.types import DType

_MOVES = ("concat", "gather", "identity", "mirror_pad", "pad", "reshape", "slice", "transpose")
_PRODUCTS = ("batch_matmul", "conv2d", "depthwise_conv2d", "div", "fully_connected", "mul")
_SUMS = ("add", "mean", "negate", "sub", "sum")
_MAGNITUDES = ("absolute", "complex_abs", "maximum", "power", "sqrt", "square")
_SPECTRA = ("rfft2d", "spectrum")
LOG_PATH_OPS = frozenset((*_MOVES, *_PRODUCTS, *_SUMS, *_MAGNITUDES, *_SPECTRA))


def values_for_logarithms(graph: Graph) -> frozenset[str]:
    """Return the values of which a logarithm is taken, directly or indirectly."""
    values: set[str] = set()
    for node in reversed(graph.nodes):
        if _leads_to_logarithm(node, values):
            values.update(name for name in node.reads if name not in graph.constants)
    return frozenset(values)


def nodes_for_logarithms(graph: Graph) -> frozenset[str]:
    """Return the first outputs of the nodes that compute or take such logarithms."""
    values = values_for_logarithms(graph)
    return frozenset(
        node.outputs[0]
        for node in graph.nodes
        if values.intersection(node.outputs) or "log" in _ops(node)
    )


def _leads_to_logarithm(node: Node, values: set[str]) -> bool:
    """Return whether only sums, products and magnitudes lead from a node to a logarithm."""
    ops = [*_ops(node)]
    if "log" in ops:
        ops = ops[: ops.index("log")]
    elif not values.intersection(node.outputs):
        return False
    return LOG_PATH_OPS.issuperset(ops)


def _ops(node: Node) -> Iterator[str]:
    """Yield the ops of a node in order, including those of its tail and of formulas."""
    parts = node.attributes.parts if isinstance(node.attributes, Joined) else ()
    for part in parts:
        yield from _ops(part)
    own = () if parts else ((node.op, node.attributes),)
    for op, attributes in (*own, *((step.op, step.attributes) for step in node.tail)):
        yield from [term.op for term in all_terms(attributes)] or [op]


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
        # The byte storage of each value, and that of the value which a reshape shows.
        self._bytes: dict[str, Stored | None] = {}
        self._kept_bytes: dict[str, Stored | None] = {}
        if options.counts_bytes:
            self._find_bytes()

    def of(self, name: str) -> Stored:
        """Return the storage of a value.

        Floats between kernels have the requested precision, inputs and outputs that of the model.
        """
        type_, options = self._graph.types[name], self._options
        if type_.dtype is not DType.F32 or name in self._ports or self._exact:
            return Stored(type_.dtype)
        if options.counts_bytes and (as_bytes := self._bytes.get(name)) is not None:
            return as_bytes
        if options.keeps_values or name in self._in_full:
            return Stored(DType.F32)
        storage = options.storage_of(type_.elements, MAX_FP32_ELEMENTS)
        counts = options.counts_steps and options.spares and storage is DType.F16
        steps = self._steps(name) if counts else None
        return steps or Stored(storage)

    def _find_bytes(self) -> None:
        """Find the values that are stored as bytes, producers before their readers."""
        multiplied = _multiplied_values(self._graph)
        for name, node in self._makers.items():
            self._bytes[name] = self._bytes_of(node, multiplied)
            if name not in self._ports:
                reshaped = node.op == "reshape" and not node.tail
                source = self._kept_bytes.get(str(node.inputs[0])) if reshaped else None
                self._kept_bytes[name] = source if reshaped else self._bytes[name]

    def _bytes_of(self, node: Node, multiplied: Set[str]) -> Stored | None:
        """Store integers with at most 256 distinct values as bytes, the lowest as zero."""
        if node.op in KEEPERS and not node.tail:
            return self._kept_bytes.get(str(node.inputs[0]))
        if node.op in ("concat", "gather") and not node.tail and node.outputs[0] in multiplied:
            read = node.inputs if node.op == "concat" else node.inputs[:1]
            parts = {self._kept_bytes.get(str(part)) for part in read}
            return parts.pop() if len(parts) == 1 else None
        grid = node.tail[-1].attributes if node.tail else node.attributes
        if not isinstance(grid, FakeQuantize) or grid.distance != 1.0:
            return None
        if grid.high - grid.low > MAX_BYTE_STEPS or not grid.low <= 0 <= grid.high:
            return None
        return Stored(DType.U8, 1.0, -grid.low)

    def _steps(self, name: str) -> Stored | None:
        """Store numbers between two bounds as 16-bit steps of equal size, finer than fp16."""
        bounds = _bounds(self._makers[name]) if name in self._makers else None
        if bounds is None:
            return None
        low, high = bounds
        return Stored(DType.I16, high / 32767) if low < 0 else Stored(DType.U16, high / 65535)


def _multiplied_values(graph: Graph) -> Set[str]:
    """Return the values that an op which multiplies reads, itself or elements picked from them."""
    multiplied: set[str] = set()
    for node in reversed(graph.nodes):
        picks = node.op in ("gather", "reshape") and not node.tail
        if node.op in SUMS:
            multiplied.add(str(node.inputs[0]))
        elif picks and node.outputs[0] in multiplied:
            multiplied.update(node.reads)
    return multiplied


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
