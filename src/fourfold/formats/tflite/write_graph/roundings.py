"""Turns rounding nodes of a graph into quantized values of the file.

    x = conv2d(..); y = fake_quantize(x; scale, low, high)  ->  y = conv2d(..), stored as integers

Graphs that were read from quantized files become quantized files again, whose layers run on
integers instead of rounded floats.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from fourfold.formats.tflite.write_graph.node_writer import Grids, WriteRule
from fourfold.formats.writable import StoredAs, WritableModel
from fourfold.graph import NONE, Graph, Node
from fourfold.ops.dequantize import Dequantize
from fourfold.ops.fake_quantize import FakeQuantize
from fourfold.ops.quantize import Quantize
from fourfold.types import DType, Quantization, TensorType, dequantize, to_integers

QUANTIZED_TYPES = (DType.I8, DType.U8, DType.I16)
_BITS = {DType.I8: 8, DType.U8: 8, DType.I16: 16}
_MOVES = {"identity", "reshape", "transpose"}
_ACTIVATIONS = {"relu": (0.0, math.inf), "relu6": (0.0, 6.0), "relu_n1_to_1": (-1.0, 1.0)}


@dataclass(frozen=True)
class Rounding:
    """The quantization that results are rounded to, and the activation that clamps them before."""

    form: StoredAs
    activation: str = ""


def rounding_of(grid: FakeQuantize, preferred: DType) -> Rounding | None:
    """Return the rounding of a node in a small integer type; None if none fits."""
    count = grid.high - grid.low
    dtype = preferred if count < 256 else DType.I16
    if count >= 1 << _BITS[dtype]:
        return None
    if count == (1 << _BITS[dtype]) - 1:
        return _from_low(grid, dtype, "")
    for name, (minimum, maximum) in _ACTIVATIONS.items():
        low, high = (
            round(limit / grid.distance) if math.isfinite(limit) else None
            for limit in (minimum, maximum)
        )
        if low == grid.low and high == grid.high:
            return _from_low(grid, dtype, name)
    if grid.low == 0:
        top = int(np.iinfo(dtype.numpy).max)
        return _at(grid, dtype, top - grid.high, "relu")
    return None


def _from_low(grid: FakeQuantize, dtype: DType, activation: str) -> Rounding | None:
    """Map the lowest integer to the first number of the range."""
    return _at(grid, dtype, int(np.iinfo(dtype.numpy).min) - grid.low, activation)


def _at(grid: FakeQuantize, dtype: DType, zero_point: int, activation: str) -> Rounding | None:
    limits = np.iinfo(dtype.numpy)
    if not limits.min <= zero_point <= limits.max:
        return None
    quantization = Quantization((grid.distance,), (zero_point,))
    return Rounding(StoredAs(dtype, quantization), activation)


def keep_roundings(model: WritableModel, rules: Mapping[str, WriteRule]) -> WritableModel:
    """Return the model with rounded values in `stored`, without the nodes that round them."""
    graph = model.graph
    weights = {name: form for name in graph.constants if (form := _weights(graph, name))}
    # The first quantized files had no i8, so they have no weights of that type.
    old = any(form.dtype is DType.U8 for form in weights.values())
    work = _Work(model, rules, DType.U8 if old else DType.I8, {**weights, **model.stored})
    for node in graph.nodes:
        work.take(node)
    nodes = tuple(node.renamed(work.names) for node in work.nodes)
    types = {**graph.types, **work.types}
    return replace(model, graph=replace(graph, nodes=nodes, types=types), stored=work.stored)


def _weights(graph: Graph, name: str) -> StoredAs | None:
    """Return integer storage for weights that were quantized in the original file."""
    quantization, array = graph.quantization.get(name), graph.constants[name]
    is_quantized = quantization is not None and array.dtype == np.float32 and array.size
    if quantization is None or not is_quantized or min(quantization.scale) <= 0:
        return None
    points = quantization.zero_point
    for dtype in (DType.I8, DType.U8):
        limits = np.iinfo(dtype.numpy)
        if limits.min <= min(points) <= max(points) <= limits.max:
            integers = to_integers(array, quantization, dtype)
            if np.allclose(dequantize(integers, quantization), array, rtol=1e-5, atol=0):
                return StoredAs(dtype, quantization)
    return None


@dataclass
class _Work:
    model: WritableModel
    rules: Mapping[str, WriteRule]
    preferred: DType
    stored: dict[str, StoredAs]
    nodes: list[Node] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)  # values merged into their rounded result
    types: dict[str, TensorType] = field(default_factory=dict)

    def take(self, node: Node) -> None:
        match node.attributes:
            case FakeQuantize() as grid:
                self._take_rounding(node, grid)
                return
            case Dequantize() as grid:
                self._take_real(node, grid)
            case Quantize() as grid:
                self._take_integers(node, grid)
        self._pass_on(node)
        self.nodes.append(node)

    def _take_rounding(self, node: Node, grid: FakeQuantize) -> None:
        rounding = rounding_of(grid, self.preferred)
        exact, (rounded,) = node.inputs[0], node.outputs
        if rounded in self.model.graph.outputs:
            # The caller gets floats; the values before them are stored as integers.
            inner = f"{rounded}/rounded"
            self.types[inner] = self.model.graph.types[rounded]
            self._take_rounding(replace(node, outputs=(inner,)), grid)
            self.nodes.append(Node("identity", (inner,), (rounded,), NONE, name=node.name))
            return
        if rounding is None or rounded in self.stored or exact is None:
            self.nodes.append(node)
            return
        self.stored[rounded] = rounding.form
        if not self._is_only_read_here(exact) or exact in self.stored:
            if rounding.activation:
                del self.stored[rounded]
            self.nodes.append(node)
        elif rounding.activation:
            self.nodes.append(Node(rounding.activation, (exact,), (rounded,), NONE, name=node.name))
        else:
            self.names[exact] = rounded
            self._keep_sources(exact, rounding.form)

    def _keep_sources(self, value: str, form: StoredAs) -> None:
        """Quantize values earlier if they are only moved before they are rounded."""
        node = self.model.graph.producers[value]
        while node.op in _MOVES and node.inputs[0] is not None:
            source = node.inputs[0]
            if not self._is_only_read_here(source) or source in self.stored:
                return
            self.stored[source] = form
            node = self.model.graph.producers[source]

    def _is_only_read_here(self, value: str) -> bool:
        graph = self.model.graph
        return (
            value in graph.producers
            and len(graph.readers[value]) == 1
            and not graph.is_output(value)
        )

    def _take_real(self, node: Node, grid: Dequantize) -> None:
        """Store values that a caller passes as integers."""
        source = node.inputs[0]
        dtype, zero_point = self.model.graph.types[source or ""].dtype, grid.zero_point
        if dtype in QUANTIZED_TYPES and node.outputs[0] not in self.model.graph.outputs:
            form = self._preferred(dtype, grid.scale, zero_point)
            self.stored.setdefault(node.outputs[0], form)

    def _take_integers(self, node: Node, grid: Quantize) -> None:
        """Store values that a caller receives as integers."""
        source, dtype = node.inputs[0], grid.to
        if source is None or dtype not in QUANTIZED_TYPES or not self._is_only_read_here(source):
            return
        limits = np.iinfo(dtype.numpy)
        full_range = (limits.min - grid.zero_point, limits.max - grid.zero_point)
        if (grid.low, grid.high) == full_range and source not in self.stored:
            form = self._preferred(dtype, grid.scale, grid.zero_point)
            self.stored[source] = form
            self._keep_sources(source, form)

    def _preferred(self, dtype: DType, scale: float, zero_point: int) -> StoredAs:
        """Return the quantization in the 8-bit type of the model's layers."""
        if dtype is not DType.I16 and dtype is not self.preferred:
            zero_point += int(np.iinfo(self.preferred.numpy).min - np.iinfo(dtype.numpy).min)
            dtype = self.preferred
        return StoredAs(dtype, Quantization((scale,), (zero_point,)))

    def _pass_on(self, node: Node) -> None:
        """Keep the quantization of values that an op only moves or selects."""
        graph, rule = self.model.graph, self.rules.get(node.op)
        if rule is None or (rule.grids is not Grids.SAME and node.op != "relu"):
            return
        forms = [
            self.stored.get(name)
            for name in node.inputs
            if name is not None
            and name not in graph.constants
            and graph.types[name].dtype is DType.F32
        ]
        grid = _common([one for one in forms if one is not None])
        if not forms or None in forms or grid is None:
            return
        for name in node.outputs:
            real = graph.types[name].dtype is DType.F32 and not graph.is_output(name)
            if real and not self._rounds_next(name):
                self.stored.setdefault(name, grid)

    def _rounds_next(self, value: str) -> bool:
        """Return True if the only reader rounds the value itself."""
        readers = self.model.graph.readers.get(value, ())
        return len(readers) == 1 and isinstance(readers[0].attributes, FakeQuantize)


def _common(forms: list[StoredAs]) -> StoredAs | None:
    """Return a grid that contains all numbers of these, if their scales are equal."""
    if not forms:
        return None
    first = forms[0]
    if all(one == first for one in forms):
        return first
    limits, lows = np.iinfo(first.dtype.numpy), []
    for one in forms:
        if one.dtype is not first.dtype or one.quantization is None or first.quantization is None:
            return None
        if not math.isclose(one.quantization.scale[0], first.quantization.scale[0], rel_tol=1e-6):
            return None
        lows.append(int(limits.min) - one.quantization.zero_point[0])
    return first if max(lows) == min(lows) else None


_MIN_ELEMENTS = 256  # elements of a weight tensor; shorter ones may be exact in float16 by chance
_MIN_FRACTION = 0.9  # fraction of all weights that must be exact in float16


def keep_float16(model: WritableModel) -> WritableModel:
    """Store weights as float16 if nearly all of them are exact in it.

    Single ones are not converted: zeros or integers of any model would be among them.
    """
    graph = model.graph
    weights = {
        name: array
        for name, array in graph.constants.items()
        if array.dtype == np.float32 and array.size >= _MIN_ELEMENTS and name not in model.stored
    }
    exact = {name: array for name, array in weights.items() if _fits(array)}
    total, exact_count = (sum(one.size for one in some.values()) for some in (weights, exact))
    if not exact_count or exact_count < _MIN_FRACTION * total:
        return model
    stored = {**dict.fromkeys(exact, StoredAs(DType.F16)), **model.stored}
    return replace(model, stored=stored)


def _fits(array: np.ndarray) -> bool:
    with np.errstate(over="ignore"):
        return bool(np.array_equal(array.astype(np.float16).astype(np.float32), array))
