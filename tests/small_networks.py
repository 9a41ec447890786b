"""A small network for tests of entire models, as a graph and as an ONNX file."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from fourfold.formats import formats
from fourfold.formats.writable import WritableModel
from fourfold.graph import Graph, Node
from fourfold.ops.base.window import Padding
from fourfold.ops.conv2d import Conv2d
from fourfold.ops.reshape import Reshape
from fourfold.types import TensorType


def small_network() -> Graph:
    """Return image -> convolution, scale, shift, relu: 'features' -> flatten, matmul: 'scores'; and
    twice the scores as an extra output.
    """
    random = np.random.default_rng(11)
    constants = {
        "filters": random.uniform(-1, 1, (4, 3, 3, 3)).astype(np.float32),
        "scale": random.uniform(0.5, 2, (4,)).astype(np.float32),
        "shift": random.uniform(-1, 1, (4,)).astype(np.float32),
        "weights": random.uniform(-1, 1, (5, 48)).astype(np.float32),
        "two": np.float32(2).reshape(()),
    }
    sizes = {
        "image": "f32[1,5,6,3]",
        **dict.fromkeys(("sum", "scaled", "shifted", "features"), "f32[1,3,4,4]"),
        "flat": "f32[1,48]",
        **dict.fromkeys(("scores", "twice"), "f32[1,5]"),
    }
    types = {name: TensorType.parse(text) for name, text in sizes.items()}
    types |= {name: TensorType.of(array) for name, array in constants.items()}
    nodes = (
        Node("conv2d", ("image", "filters"), ("sum",), Conv2d(), name="sum"),
        Node("mul", ("sum", "scale"), ("scaled",), name="scaled"),
        Node("add", ("scaled", "shift"), ("shifted",), name="shifted"),
        Node("relu", ("shifted",), ("features",), name="features"),
        Node("reshape", ("features",), ("flat",), Reshape((1, 48)), name="flat"),
        Node("fully_connected", ("flat", "weights"), ("scores",), name="scores"),
        Node("mul", ("scores", "two"), ("twice",), name="twice"),
    )
    return Graph(nodes, ("image",), ("scores", "twice"), types, constants)


def small_onnx() -> bytes:
    graph = small_network()
    return formats()["onnx"].write(WritableModel(graph, graph.inputs, graph.outputs))


def deep_onnx(layers: int = 5, channels: int = 32, size: int = 14) -> bytes:
    """Return consecutive 3x3 convolutions, which a CPU runs with Winograd's algorithm in one
    launch.
    """
    random = np.random.default_rng(13)
    shape = TensorType.parse(f"f32[1,{size},{size},{channels}]")
    values = ["image", *(f"layer{number}" for number in range(layers))]
    nodes, constants = [], {}
    for number, (before, after) in enumerate(pairwise(values)):
        name = f"filters{number}"
        filters = random.uniform(-1, 1, (channels, 3, 3, channels)) / channels
        constants[name] = filters.astype(np.float32)
        attributes = Conv2d(padding=Padding(1, 1, 1, 1))
        nodes.append(Node("conv2d", (before, name), (after,), attributes, name=after))
    types = dict.fromkeys(values, shape)
    types |= {name: TensorType.of(array) for name, array in constants.items()}
    graph = Graph(tuple(nodes), ("image",), (values[-1],), types, constants)
    return formats()["onnx"].write(WritableModel(graph, graph.inputs, graph.outputs))
