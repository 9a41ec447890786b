"""Small detectors as TFLite files: a convolution, with outputs shaped like a detector family."""

from __future__ import annotations

import numpy as np

from fourfold.formats import formats
from fourfold.formats.writable import WritableModel
from fourfold.graph import Graph, Node
from fourfold.ops.base import registry
from fourfold.ops.conv2d import Conv2d
from fourfold.ops.reshape import Reshape
from fourfold.ops.slice import Slice
from fourfold.ops.transpose import Transpose
from fourfold.types import DType, TensorType

HEIGHT, WIDTH = 32, 48


class Network:
    """A graph that grows from an image."""

    def __init__(self, batch: int = 1, seed: int = 3) -> None:
        self.types = {"image": TensorType(DType.F32, (batch, HEIGHT, WIDTH, 3))}
        self.constants: dict[str, np.ndarray] = {}
        self.nodes: list[Node] = []
        self.random = np.random.default_rng(seed)

    def add(self, name: str, op: str, *inputs: str, attributes: object = None) -> str:
        own = () if attributes is None else (attributes,)
        node = Node(op, inputs, (name,), *own, name=name)
        arguments = (self.types[one] for one in inputs)
        (self.types[name],) = registry()[op].infer(node.attributes, *arguments)
        self.nodes.append(node)
        return name

    def grid(self, stride: int, channels: int, spread: float = 1.5) -> str:
        """Add a convolution of the image with one cell per `stride` pixels."""
        name = f"grid{stride}x{channels}"
        filters = self.random.normal(0, spread, (channels, stride, stride, 3)) / stride
        bias = self.random.normal(-0.5, 1, channels)
        for part, array in (("filters", filters), ("bias", bias)):
            self.constants[f"{name}/{part}"] = array.astype(np.float32)
            self.types[f"{name}/{part}"] = TensorType.of(self.constants[f"{name}/{part}"])
        window = Conv2d(stride=(stride, stride))
        inputs = ("image", f"{name}/filters", f"{name}/bias")
        return self.add(name, "conv2d", *inputs, attributes=window)

    def reshape(self, name: str, value: str, *shape: int) -> str:
        return self.add(name, "reshape", value, attributes=Reshape(shape))

    def transpose(self, name: str, value: str, *axes: int) -> str:
        return self.add(name, "transpose", value, attributes=Transpose(axes))

    def cut(self, name: str, value: str, start: int, stop: int) -> str:
        """Add a slice of the last axis."""
        *shape, _ = self.types[value].shape
        starts_and_steps = ((0,) * len(shape), (1,) * (len(shape) + 1))
        attributes = Slice(
            (*starts_and_steps[0], start), (*shape, stop - start), starts_and_steps[1]
        )
        return self.add(name, "slice", value, attributes=attributes)

    def write(self, *outputs: str) -> bytes:
        graph = Graph(tuple(self.nodes), ("image",), outputs, self.types, self.constants)
        return formats()["tflite"].write(WritableModel(graph, ("image",), outputs))


def yolo_v5(classes: int = 3, batch: int = 1) -> bytes:
    """Return a model with the output [batch, N, 5 + classes], as fractions of the image."""
    network = Network(batch)
    cells = network.grid(4, 2 * (5 + classes))
    count = HEIGHT * WIDTH // 16 * 2
    rows = network.reshape("rows", cells, batch, count, 5 + classes)
    return network.write(network.add("predictions", "logistic", rows))


def yolo_v8(classes: int = 3, extras: int = 0, batch: int = 1) -> bytes:
    """Return a model with the output [batch, 4 + classes + extras, N], as fractions of
    the image.
    """
    network = Network(batch)
    cells = network.grid(4, 4 + classes + extras)
    count = HEIGHT * WIDTH // 16
    rows = network.reshape("rows", cells, batch, count, 4 + classes + extras)
    turned = network.transpose("turned", rows, 0, 2, 1)
    return network.write(network.add("output0", "logistic", turned))


def yolo_heads(classes: int = 2, planes: bool = False) -> bytes:
    """Return a model of two undecoded grids with two anchors per cell, the coarser first."""
    network = Network()
    heads = [network.grid(stride, 2 * (5 + classes)) for stride in (16, 8)]
    if planes:
        heads = [network.transpose(f"planes{n}", head, 0, 3, 1, 2) for n, head in enumerate(heads)]
    return network.write(*heads)


def boxes_and_scores(classes: int = 3) -> bytes:
    """Return a model of 'boxes' [1, N, 4], 'scores' [1, N, classes] and an unrelated
    'embedding'.
    """
    network = Network()
    cells, count = network.grid(4, 4 + classes), HEIGHT * WIDTH // 16
    rows = network.reshape("rows", cells, 1, count, 4 + classes)
    scores = network.add("scores", "logistic", network.cut("logits", rows, 4, 4 + classes))
    embedding = network.reshape("embedding", network.grid(16, 8), 1, 48)
    return network.write(network.cut("boxes", rows, 0, 4), scores, embedding)
