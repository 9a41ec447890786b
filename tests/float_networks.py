"""Small float networks as graphs and files, for tests of file writers."""

from __future__ import annotations

import numpy as np

from fourfold.formats import formats
from fourfold.formats.writable import WritableModel
from fourfold.graph import NONE, Graph, Node
from fourfold.ops.base import registry
from fourfold.ops.base.rules import Reduce
from fourfold.ops.base.window import Padding
from fourfold.ops.concat import Concat
from fourfold.ops.conv2d import Conv2d
from fourfold.ops.depthwise_conv2d import DepthwiseConv2d
from fourfold.ops.reshape import Reshape
from fourfold.ops.softmax import Softmax
from fourfold.types import TensorType


class GraphDraft:
    """Builds a graph node by node; types follow from the ops' rules."""

    def __init__(self, seed: int = 0, **inputs: tuple[int, ...]) -> None:
        self.random = np.random.default_rng(seed)
        self.inputs = tuple(inputs)
        self.types = {
            name: TensorType.parse(f"f32[{','.join(map(str, shape))}]")
            for name, shape in inputs.items()
        }
        self.constants: dict[str, np.ndarray] = {}
        self.nodes: list[Node] = []

    def constant(self, name: str, array: np.ndarray) -> str:
        self.constants[name] = np.asarray(array, np.float32)
        self.types[name] = TensorType.of(self.constants[name])
        return name

    def weights(self, name: str, *shape: int, gain: float = 1.0) -> str:
        spread = gain / np.sqrt(np.prod(shape[1:]))
        return self.constant(name, self.random.standard_normal(shape) * spread)

    def node(self, op: str, output: str, *inputs: str | None, attributes: object = NONE) -> str:
        arguments = [None if name is None else self.types[name] for name in inputs]
        (result,) = registry()[op].infer(attributes, *arguments)
        self.types[output] = result
        self.nodes.append(Node(op, inputs, (output,), attributes, name=output))
        return output

    def conv(self, output: str, x: str, channels: int, size: int = 3) -> str:
        inputs, pad = self.types[x].channels, size // 2
        weights = self.weights(f"{output}/weights", channels, size, size, inputs, gain=1.5)
        bias = self.weights(f"{output}/bias", channels, gain=0.1)
        attributes = Conv2d(padding=Padding(pad, pad, pad, pad))
        return self.node("conv2d", output, x, weights, bias, attributes=attributes)

    def depthwise(self, output: str, x: str) -> str:
        channels = self.types[x].channels
        weights = self.constant(
            f"{output}/weights", self.random.standard_normal((1, 3, 3, channels)) / 3
        )
        bias = self.weights(f"{output}/bias", channels, gain=0.1)
        attributes = DepthwiseConv2d(padding=Padding(1, 1, 1, 1))
        return self.node("depthwise_conv2d", output, x, weights, bias, attributes=attributes)

    def graph(self, *outputs: str) -> Graph:
        return Graph(tuple(self.nodes), self.inputs, outputs, self.types, self.constants)


def write_tflite(graph: Graph) -> bytes:
    """Write the graph as a float file."""
    return formats()["tflite"].write(WritableModel(graph, graph.arguments, graph.results))


def small_classifier() -> Graph:
    """Return convolutions of all kinds, a residual, branches of different ranges, and a softmax."""
    draft = GraphDraft(image=(1, 12, 12, 3))
    first = draft.node("relu6", "first", draft.conv("first/sum", "image", 16))
    deep = draft.node("relu", "deep", draft.depthwise("deep/sum", first))
    back = draft.conv("back", deep, 16, size=1)
    joined = draft.node("add", "joined", back, first)
    wide = draft.conv("wide", joined, 8)
    both = draft.node("concat", "both", joined, wide, attributes=Concat(3))
    mean = draft.node("mean", "mean", both, attributes=Reduce((1, 2), keep_dims=False))
    flat = draft.node("reshape", "flat", mean, attributes=Reshape((1, 24)))
    weights = draft.weights("logits/weights", 5, 24, gain=3.0)
    logits = draft.node("fully_connected", "logits", flat, weights, None)
    draft.node("softmax", "scores", logits, attributes=Softmax())
    return draft.graph("scores")


def pictures(graph: Graph, count: int, seed: int = 1) -> list[np.ndarray]:
    """Return random arrays for the only input."""
    random = np.random.default_rng(seed)
    shape = graph.types[graph.arguments[0]].shape
    return [random.uniform(-1, 1, shape).astype(np.float32) for _ in range(count)]
