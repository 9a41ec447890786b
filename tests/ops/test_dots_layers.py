"""Single layers of bytes against their NumPy references: the same whole numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fourfold.device import DeviceInfo
from fourfold.graph import Graph, Node, Step
from fourfold.kernel.site import Options
from fourfold.lower import make_plan
from fourfold.ops import registry
from fourfold.ops._window import Padding
from fourfold.ops.conv2d import Conv2d
from fourfold.ops.depthwise_conv2d import DepthwiseConv2d
from fourfold.ops.dequantize import Dequantize
from fourfold.ops.fake_quantize import FakeQuantize
from fourfold.players import opencl
from fourfold.players.probe import probed
from fourfold.types import DType, TensorType

AROUND = Padding(1, 1, 1, 1)
GRID = FakeQuantize(1.0, -97, 158, 1.0)


def layer(node: Node, source: str, weights: tuple[int, ...], bytes_in: bool) -> Graph:
    """One layer between bytes: the input is rounded to them first, or comes as such."""
    random = np.random.default_rng(sum(weights))
    constants = {
        "w": random.integers(-100, 110, weights, endpoint=True).astype(np.float32),
        "b": random.integers(-999, 999, weights[0 if node.op != "depthwise_conv2d" else 3]),
    }
    constants["b"] = constants["b"].astype(np.float32)
    input_ = TensorType.parse(source)
    value = replace(input_, dtype=DType.F32)
    first = Node("fake_quantize", ("x",), ("v",), replace(GRID, scale=0.5))
    if bytes_in:
        first = Node("dequantize", ("x",), ("v",), Dequantize(1.0, 5))
    types = {"x": input_, "v": value, **{k: TensorType.of(v) for k, v in constants.items()}}
    types["y"] = registry()[node.op].infer(node.attributes, *(types[n] for n in "vwb"))[0]
    scale = float(np.abs(constants["w"]).sum() / types["y"].channels / 6)
    tail = (Step("fake_quantize", replace(GRID, scale=scale), (None,)),)
    last = Node("identity", ("y",), ("z",))
    types["z"] = types["y"]
    return Graph((first, replace(node, tail=tail), last), ("x",), ("z",), types, constants)


def expected(graph: Graph, x: np.ndarray) -> np.ndarray:
    values = {"x": x, **graph.constants}
    for node in graph.nodes:
        arrays = [values[str(name)].astype(np.float64) for name in node.inputs]
        result = registry()[node.op].reference(node.attributes, *arrays)
        for step in node.tail:
            result = registry()[step.op].reference(step.attributes, result.astype(np.float32))
        values[node.outputs[0]] = result
    return values["z"]


def check(device: DeviceInfo, graph: Graph, kernels: tuple[str, ...]) -> None:
    able = probed(device, counts=True)
    if not able.dot_products:
        pytest.skip("this processor has no dot products of bytes")
    random, type_ = np.random.default_rng(7), graph.types["x"]
    x = random.integers(-60, 60, type_.shape).astype(type_.dtype.numpy)
    if type_.dtype is DType.U8:
        x = random.integers(0, 256, type_.shape).astype(np.uint8)
    plan = make_plan(graph, able, Options(form="list"))
    entries = {launch.entry.rpartition("_")[0] for launch in plan.launches}
    assert entries >= set(kernels), entries
    player = opencl.Player(device, plan)
    player.poison()
    (result,) = player.run([x])
    player.close()
    wanted = expected(graph, x)
    assert not np.isnan(result).any()
    assert len(np.unique(wanted)) > 30
    assert np.abs(result - wanted).max() <= 1  # sums beyond 2**24 may lie at a tie
    assert np.mean(result != wanted) < 1e-3


@pytest.mark.parametrize(
    ("source", "size", "attributes", "odd"),
    [
        ("f32[1,13,11,5]", (3, 3), DepthwiseConv2d(padding=AROUND), 0),
        ("f32[2,11,23,16]", (3, 3), DepthwiseConv2d((2, 2), padding=Padding(0, 1, 0, 1)), 0),
        ("f32[1,7,7,37]", (5, 5), DepthwiseConv2d(padding=Padding(2, 2, 2, 2)), 0),
        ("f32[1,17,13,8]", (5, 3), DepthwiseConv2d((2, 1), (3, 1), Padding(3, 2, 1, 1)), 0),
        ("f32[3,1,19,7]", (1, 4), DepthwiseConv2d((1, 2)), 0),
        ("f32[1,29,4,19]", (3, 3), DepthwiseConv2d(padding=AROUND), 143),
        ("f32[1,13,17,4]", (3, 7), DepthwiseConv2d((1, 3), padding=Padding(1, 1, 3, 2)), -144),
    ],
)
def test_depthwise(
    device: DeviceInfo, source: str, size: tuple[int, int], attributes: DepthwiseConv2d, odd: int
) -> None:
    channels = TensorType.parse(source).channels
    node = Node("depthwise_conv2d", ("v", "w", "b"), ("y",), attributes)
    graph = layer(node, source, (1, *size, channels), bytes_in=False)
    if odd:
        graph.constants["w"][0, 0, 0, :] = odd
    check(device, graph, ("depthwise_dots",))


@pytest.mark.parametrize(
    ("source", "weights", "attributes"),
    [
        ("f32[1,13,11,5]", (19, 3, 3, 5), Conv2d(padding=AROUND)),
        ("f32[2,7,5,13]", (8, 5, 3, 13), Conv2d((2, 1), padding=Padding(2, 2, 0, 1))),
        ("f32[1,11,13,6]", (37, 3, 3, 6), Conv2d(dilation=(2, 3), padding=Padding(2, 2, 3, 3))),
        ("f32[1,1,3,29]", (24, 1, 1, 29), Conv2d()),
        ("u8[1,23,19,3]", (16, 3, 3, 3), Conv2d((2, 2), padding=Padding(0, 1, 0, 1))),
        ("i8[2,13,11,3]", (7, 3, 3, 3), Conv2d(padding=AROUND)),
        ("i8[1,17,5,1]", (24, 3, 3, 1), Conv2d()),
        ("u8[1,7,5,7]", (11, 1, 1, 7), Conv2d()),
    ],
)
@pytest.mark.parametrize("odd", [0, 150], ids=["bytes", "wide"])
def test_convolution(
    device: DeviceInfo, source: str, weights: tuple[int, ...], attributes: Conv2d, odd: int
) -> None:
    node = Node("conv2d", ("v", "w", "b"), ("y",), attributes)
    graph = layer(node, source, weights, bytes_in=not source.startswith("f32"))
    if odd:
        graph.constants["w"].flat[-1] = odd
    plain = weights[1:3] == (1, 1) and attributes.padding == Padding()
    check(device, graph, ("conv2d_1x1_dots" if plain else "conv2d_dots",))
