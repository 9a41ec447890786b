"""Byte convolutions are bit-equal to convolutions of the integers they represent."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from interpreted_devices import KHR, X86

from fourfold.backends import make_player, probe
from fourfold.codegen.context import KernelOptions
from fourfold.compiler.lower import make_plan
from fourfold.compiler.lower.storage import Storage
from fourfold.compiler.rewrite import rewrite
from fourfold.device import DeviceInfo
from fourfold.graph import Graph, Node, Step
from fourfold.ops.base import registry
from fourfold.ops.base.window import Padding
from fourfold.ops.conv2d import Conv2d
from fourfold.ops.depthwise_conv2d import DepthwiseConv2d
from fourfold.ops.fake_quantize import FakeQuantize
from fourfold.ops.kernels.reduce import Reduce
from fourfold.types import DType, TensorType

INTERPRETED = (X86, KHR)
GRIDS = (FakeQuantize(1.0, 0, 255, 1.0), FakeQuantize(1.0, -97, 158, 1.0))


def network(grid: FakeQuantize, channels: int, batch: int, odd: int = 0) -> Graph:
    """Return layers as rewrites leave them: weights, biases and values are integers."""
    random = np.random.default_rng(channels)
    sizes = {"w0": (channels, 1, 1, 5), "w1": (1, 3, 3, channels), "w2": (19, 1, 1, channels)}
    sizes |= {"w3": (7, 3, 3, 19), "b2": (19,)}
    constants = {
        name: random.integers(-127, 127, size, endpoint=True).astype(np.float32)
        for name, size in sizes.items()
    }
    if odd:
        # As in uint8 models: bytes hold the weights only after an offset is subtracted.
        constants = {name: np.clip(array, -110, 110) for name, array in constants.items()}
        for array in constants.values():
            array.flat[0] = odd
    around = Padding(1, 1, 1, 1)

    def tail(scale: float) -> tuple[Step, ...]:
        return (Step("fake_quantize", replace(grid, scale=scale), (None,)),)

    nodes = (
        Node("conv2d", ("x", "w0"), ("a",), Conv2d(), tail(25.0)),
        Node("depthwise_conv2d", ("a", "w1"), ("b",), DepthwiseConv2d(padding=around), tail(120.0)),
        Node("conv2d", ("b", "w2", "b2"), ("c",), Conv2d(), tail(150.0)),
        Node("conv2d", ("c", "w3"), ("d",), Conv2d((2, 1), padding=around), tail(250.0)),
        Node("conv2d", ("a", "w2"), ("e",), Conv2d()),
    )
    types = {name: TensorType.of(array) for name, array in constants.items()}
    types["x"] = TensorType.parse(f"f32[{batch},13,11,5]")
    for node in nodes:
        known = [types[str(name)] for name in node.inputs]
        types[node.outputs[0]] = registry()[node.op].infer(node.attributes, *known)[0]
    return Graph(nodes, ("x",), ("d", "e"), types, constants)


def dotted(device: DeviceInfo) -> DeviceInfo:
    found = probe(device, quantised=True)
    if not found.dot_products:
        pytest.skip("this processor has no dot products of bytes")
    return replace(found, matrix_units=False)


@pytest.mark.devices(takes=lambda device: device.platform == "Portable Computing Language")
def test_pocl_uses_byte_instructions(device: DeviceInfo) -> None:
    if device.dot_products != "x86":
        pytest.skip("this processor has no dot products of bytes")
    assert probe(device, quantised=True).dot_products == "x86"


@pytest.mark.parametrize(
    ("grid", "channels", "batch", "form", "odd"),
    [
        (GRIDS[0], 16, 1, "list", 0),
        (GRIDS[1], 37, 2, "list", 0),
        (GRIDS[1], 37, 1, "one", 0),
        (GRIDS[1], 19, 1, "list", 143),
        (GRIDS[0], 41, 3, "one", -141),
    ],
    ids=["unsigned", "signed", "one", "above", "below"],
)
def test_results_are_bit_equal(
    device: DeviceInfo, grid: FakeQuantize, channels: int, batch: int, form: str, odd: int
) -> None:
    able = dotted(device)
    graph = rewrite(network(grid, channels, batch, odd), verify=True)
    x = np.random.default_rng(1).integers(-50, 50, (batch, 13, 11, 5)).astype(np.float32)
    results = []
    for facts in (replace(able, dot_products=""), able):
        plan = make_plan(graph, facts, KernelOptions(form=form))
        assert plan.requirements.dot_products == facts.dot_products
        player = make_player(device, plan)
        player.poison()
        results.append(player.run([x]))
        player.close()
    for plain, dots in zip(*results, strict=True):
        assert not np.isnan(dots).any()
        assert len(np.unique(dots)) > 50
        np.testing.assert_array_equal(dots, plain)


def test_values_take_far_less_memory(device: DeviceInfo) -> None:
    able = dotted(device)
    graph = rewrite(network(GRIDS[0], 64, 1), verify=True)
    sizes = [
        make_plan(graph, facts, KernelOptions()).bytes("arena")
        for facts in (replace(able, dot_products=""), able)
    ]
    assert sizes[1] * 3 <= sizes[0]


def test_wide_weights_use_floats(device: DeviceInfo) -> None:
    able = dotted(device)
    graph = network(GRIDS[0], 16, 1)
    wide = {name: array * 2 for name, array in graph.constants.items()}
    plan = make_plan(rewrite(replace(graph, constants=wide)), able, KernelOptions(form="list"))
    assert not plan.requirements.dot_products


@pytest.mark.parametrize("value", ["a", "b", "c"])
def test_lanes_beyond_the_last_channel_are_zero(device: DeviceInfo, value: str) -> None:
    """A sum over all channels reads these lanes, too."""
    able = dotted(device)
    graph = network(GRIDS[1], 37, 1)
    node = Node("sum", (value,), ("f",), Reduce((3,), keep_dims=True))
    types = {**graph.types, "f": TensorType.parse("f32[1,13,11,1]")}
    graph = replace(graph, nodes=(*graph.nodes[:3], node), outputs=("f",), types=types)
    x = np.random.default_rng(2).integers(-50, 50, (1, 13, 11, 5)).astype(np.float32)
    results = []
    for facts in (replace(able, dot_products=""), able):
        player = make_player(device, make_plan(graph, facts, KernelOptions()))
        results.append(player.run([x])[0])
        player.close()
    assert len(np.unique(results[0])) > 50
    np.testing.assert_array_equal(results[1], results[0])


def test_one_of_several_results_is_not_stored_as_bytes() -> None:
    float_ = TensorType.parse("f32[1,5,7,4]")
    types = dict.fromkeys(("x", "p", "q", "r"), float_)
    nodes = (
        Node("suppress_boxes", ("x",), ("p", "q"), None),
        Node("fake_quantize", ("q",), ("r",), GRIDS[0]),
    )
    storage = Storage(Graph(nodes, ("x",), (), types, {}), KernelOptions(counts_bytes=True))
    assert storage.of("q").dtype is DType.F32
    assert storage.of("r").dtype is DType.U8
