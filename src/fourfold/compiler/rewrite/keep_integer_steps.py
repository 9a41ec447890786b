"""x = fake_quantize(..; s); y = conv2d(x, w, b); z = fake_quantize(y; t)
->  n = fake_quantize(..; s, step 1); y = conv2d(n, v, c); z = fake_quantize(y * m; 1)

n, v and c are the integers (steps of a grid) that x, w and b were stored as, so fp32 (and fp16, as
far as it is used for storage) holds them and their products exactly: sums equal those of integer
arithmetic. Nodes that only move, pick or average elements stay in steps; nodes that need real
numbers read n * s.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from fourfold.compiler.rewrite._names import PassConstants
from fourfold.graph import Graph, Node
from fourfold.ops.dequantize import Dequantize
from fourfold.ops.fake_quantize import FakeQuantize
from fourfold.ops.pad import Pad
from fourfold.ops.quantize import Quantize


@dataclass(frozen=True, eq=False)
class StoredSteps:
    """real = whole * scale; one scale per channel, or one for all."""

    whole: np.ndarray
    scales: np.ndarray


def stored_steps(graph: Graph, name: str | None, axis: int) -> StoredSteps | None:
    """Return the integers of a quantized constant with channels along `axis`, or None."""
    array = None if name is None else graph.constants.get(name)
    stored = graph.quantization.get(str(name))
    if array is None or stored is None or stored.axis not in (None, axis):
        return None
    scales = np.array(stored.scale, np.float32)
    if not (scales > 0).all():
        return None
    shape = [1] * array.ndim
    if stored.axis is not None:
        shape[axis] = -1
    integers = np.rint(array.astype(np.float64) / scales.reshape(shape))
    return StoredSteps(integers.astype(np.float32), scales)


# For each weighted sum, the axis of its weights with the output channels.
_CHANNEL_AXIS = {"conv2d": 0, "depthwise_conv2d": 3, "fully_connected": 0, "transpose_conv2d": 0}
# f(s * x) = s * f(x) for every positive s; all inputs have the same step.
_HOMOGENEOUS = {
    *("average_pool2d", "batch_to_space", "concat", "depth_to_space", "identity", "leaky_relu"),
    *("max_pool2d", "maximum", "mean", "minimum", "mirror_pad", "negate", "pad", "reduce_max"),
    *("reduce_min", "relu", "reshape", "resize_bilinear", "resize_nearest", "slice"),
    *("space_to_batch", "space_to_depth", "sum", "tile", "transpose"),
}
_INDEXED = {"gather", "gather_nd"}  # homogeneous in their first input
_ORDERING = {"arg_max", "arg_min"}  # f(s * x) = f(x)
# Maximum relative difference between the scale of a bias and that of the sum. LiteRT ignores it.
_BIAS_SCALE_TOLERANCE = 0.01


@dataclass(frozen=True, eq=False)
class _Steps:
    """A value in integer steps: real = steps * unit. A sum has one unit per channel."""

    name: str
    unit: float
    units: np.ndarray | None = None


def keep_integer_steps(graph: Graph) -> Graph:
    grids = (FakeQuantize, Dequantize)
    if not any(isinstance(node.attributes, grids) for node in graph.nodes):
        return graph
    work = _Work(graph, PassConstants(graph))
    for node in graph.nodes:
        if node.tail or len(node.outputs) != 1 or not work.convert(node):
            work.keep(node)
    return work.finish()


@dataclass
class _Work:
    """The nodes so far, and the values that are available in integer steps."""

    graph: Graph
    values: PassConstants
    nodes: list[Node] = field(default_factory=list)
    steps: dict[str, _Steps] = field(default_factory=dict)
    # nodes that compute real numbers, added when needed
    sources: dict[str, Node] = field(default_factory=dict)

    def convert(self, node: Node) -> bool:
        """Add the node in its form on integer steps, if it has one; return whether it has."""
        match node.attributes:
            case Dequantize() as attributes:
                return self._read(node, attributes)
            case FakeQuantize() as attributes:
                return self._round(node, attributes)
            case Quantize() as attributes:
                return self._store(node, attributes)
        if node.op in _CHANNEL_AXIS:
            return self._sum(node)
        return self._pass_on(node)

    def keep(self, node: Node) -> None:
        """Add a node that needs real numbers."""
        for name in node.reads:
            self._make_real(name)
        self.nodes.append(node)

    def finish(self) -> Graph:
        for name in self.graph.outputs:
            self._make_real(name)
        kept: list[Node] = []
        needed = {*self.graph.outputs}
        for node in reversed(self.nodes):
            if not needed.isdisjoint(node.outputs):
                needed.update(node.reads)
                kept.append(node)
        return self.values.apply(reversed(kept))

    def _make_real(self, name: str) -> None:
        source = self.sources.pop(name, None)
        if source is not None:
            self.nodes.append(source)

    def _add(self, node: Node, unit: float) -> None:
        """Add a node that computes in steps what was computed in real numbers."""
        output = node.outputs[0]
        name = self.values.declare(f"{output}/steps", self.graph.types[output])
        self.nodes.append(replace(node, outputs=(name,)))
        self.steps[output] = _Steps(name, unit)
        real = Dequantize(unit, 0)
        self.sources[output] = Node("dequantize", (name,), (output,), real, name=node.name)

    def _read(self, node: Node, attributes: Dequantize) -> bool:
        if self.graph.types[str(node.inputs[0])].dtype.is_float:
            return False
        self._add(replace(node, attributes=replace(attributes, scale=1.0)), attributes.scale)
        self.sources[node.outputs[0]] = node
        return True

    def _round(self, node: Node, attributes: FakeQuantize) -> bool:
        if attributes.distance == 1.0 and str(node.inputs[0]) not in self.steps:
            self.steps[node.outputs[0]] = _Steps(node.outputs[0], 1.0)
            return False
        source, scale = self._scaled(node, attributes.scale)
        on_integers = replace(attributes, scale=scale, step=1.0)
        self._add(replace(node, inputs=(source,), attributes=on_integers), attributes.distance)
        return True

    def _store(self, node: Node, attributes: Quantize) -> bool:
        source, scale = self._scaled(node, attributes.scale)
        attributes = replace(attributes, scale=scale)
        self.nodes.append(replace(node, inputs=(source,), attributes=attributes))
        return True

    def _scaled(self, node: Node, scale: float) -> tuple[str, float]:
        """Return the value to round for a node, and the scale of its grid in that unit."""
        name = str(node.inputs[0])
        source = self.steps.get(name)
        if source is None:
            self._make_real(name)
            return name, scale
        if source.units is None:
            return source.name, 1.0 if source.unit == scale else scale / source.unit
        # XNNPACK computes its factors in the same order of roundings.
        factors = self.values.add(f"{name}/factors", source.units / np.float32(scale))
        steps = self.values.declare(f"{name}/scaled", self.graph.types[name])
        self.nodes.append(Node("mul", (source.name, factors), (steps,), name=node.name))
        return steps, 1.0

    def _sum(self, node: Node) -> bool:
        """Add a weighted sum of integers, if all its inputs were stored quantized."""
        output = node.outputs[0]
        source, weights, bias = (*node.inputs, None)[:3]
        steps = self.steps.get(str(source))
        if steps is None or steps.units is not None or not self._is_only_rounded(output):
            return False
        factors = stored_steps(self.graph, weights, _CHANNEL_AXIS[node.op])
        if factors is None:
            return False
        channels = self.graph.types[output].channels
        units = np.broadcast_to(np.float32(steps.unit) * factors.scales, (channels,))
        offsets = None if bias is None else self._offsets(bias, units)
        if bias is not None and offsets is None:
            return False
        inputs = (
            steps.name,
            self.values.add(f"{weights}/steps", factors.whole),
            None if offsets is None else self.values.add(f"{bias}/steps", offsets),
        )
        name = self.values.declare(f"{output}/sum", self.graph.types[output])
        self.nodes.append(replace(node, inputs=inputs, outputs=(name,)))
        self.steps[output] = _Steps(name, 0.0, units)
        return True

    def _offsets(self, bias: str, units: np.ndarray) -> np.ndarray | None:
        """Return a bias in the units of a sum, rounded if it was not stored in them."""
        stored = stored_steps(self.graph, bias, 0)
        if stored is None or np.allclose(stored.scales, units, _BIAS_SCALE_TOLERANCE, 0):
            return None if stored is None else stored.whole
        real = self.graph.constants[bias].astype(np.float64)
        return np.asarray(np.rint(real / units), np.float32)

    def _is_only_rounded(self, name: str) -> bool:
        readers = self.graph.readers.get(name, ())
        if len(readers) != 1 or readers[0].tail or self.graph.is_output(name):
            return False
        return isinstance(readers[0].attributes, FakeQuantize | Quantize)

    def _pass_on(self, node: Node) -> bool:
        indexed = node.op in _INDEXED
        if not (indexed or node.op in _HOMOGENEOUS or node.op in _ORDERING):
            return False
        converted = node.inputs[:1] if indexed else node.inputs
        steps = [self.steps.get(str(name)) for name in converted]
        units = {None if one is None else one.unit for one in steps}
        if len(units) != 1 or None in units or any(one and one.units is not None for one in steps):
            return False
        (unit,) = units
        assert unit is not None
        inputs = (*(one.name for one in steps if one), *node.inputs[len(steps) :])
        attributes = node.attributes
        if isinstance(attributes, Pad):
            attributes = replace(attributes, value=attributes.value / unit)
        on_steps = replace(node, inputs=inputs, attributes=attributes)
        if node.op in _ORDERING:
            self.nodes.append(on_steps)
        elif inputs == node.inputs:
            self.steps[node.outputs[0]] = _Steps(node.outputs[0], unit)
            self.nodes.append(node)
        else:
            self._add(on_steps, unit)
        return True
