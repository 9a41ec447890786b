"""Check that a device computes correctly, with a small convolution through the whole pipeline."""

from __future__ import annotations

from functools import cache

import numpy as np

from fourfold.backends import make_player
from fourfold.backends.cpu.reference import evaluate
from fourfold.compiler.compile import plan_graph
from fourfold.device import DeviceInfo
from fourfold.errors import FourfoldError
from fourfold.graph import Graph, Node
from fourfold.ops.conv2d import Conv2d
from fourfold.options import CompileOptions
from fourfold.types import TensorType

TOLERANCE = {"fp32": 1e-4, "mixed": 1e-2, "fp16": 5e-2}  # relative to the largest number


@cache
def find_error(device: DeviceInfo, precision: str) -> str:
    """Return what is wrong with results in this precision, or '' if they are correct."""
    graph, image = _graph()
    expected = evaluate(graph, {"x": image})["y"]
    try:
        player = make_player(device, plan_graph(graph, device, CompileOptions(precision)))
        try:
            result = player.run([image])[0]
        finally:
            player.close()
    except FourfoldError as error:
        return f"{error.what}: {error.why}"
    far = float(np.abs(result - expected).max() / np.abs(expected).max())
    if far <= TOLERANCE[precision]:
        return ""
    return f"a small convolution in {precision} is off by {far:.1%}"


def _graph() -> tuple[Graph, np.ndarray]:
    """Return y = relu(conv2d(x, weights)), and an x."""
    random = np.random.default_rng(4)
    image = random.uniform(-1, 1, (1, 9, 9, 8)).astype(np.float32)
    weights = random.uniform(-1, 1, (12, 3, 3, 8)).astype(np.float32)
    result = TensorType.of(image).with_shape(1, 7, 7, 12)
    types = {"x": TensorType.of(image), "w": TensorType.of(weights), "t": result, "y": result}
    nodes = (Node("conv2d", ("x", "w", None), ("t",), Conv2d()), Node("relu", ("t",), ("y",)))
    return Graph(nodes, ("x",), ("y",), types, {"w": weights}), image
