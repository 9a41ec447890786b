"""Pointwise ops with byte results match their NumPy references."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from interpreted_devices import X86

from fourfold.backends import make_player, probe
from fourfold.codegen.context import KernelOptions
from fourfold.compiler.lower import make_plan
from fourfold.device import DeviceInfo
from fourfold.graph import Graph, Node, Step
from fourfold.ops.base import registry
from fourfold.ops.base.rules import Resize
from fourfold.ops.dequantize import Dequantize
from fourfold.ops.fake_quantize import FakeQuantize
from fourfold.types import TensorType

INTERPRETED = (X86,)
GRID = FakeQuantize(1.0, -97, 158, 1.0)


def pair(op: str, shapes: tuple[str, str], rounding: FakeQuantize) -> Graph:
    """Return z = op(x, y) in bytes; x and y are rounded to bytes first, with different scales."""
    types = {name: TensorType.parse(shape) for name, shape in zip("xy", shapes, strict=True)}
    nodes = []
    for name, scale in (("x", 0.25), ("y", 0.125)):
        steps, real = f"{name}/steps", f"{name}/real"
        nodes.append(Node("fake_quantize", (name,), (steps,), replace(GRID, scale=1.0)))
        nodes.append(Node("dequantize", (steps,), (real,), Dequantize(scale, 0)))
        types |= {steps: types[name], real: types[name]}
    tail = (Step("fake_quantize", rounding, (None,)),)
    nodes.append(Node(op, ("x/real", "y/real"), ("z",), tail=tail))
    nodes.append(Node("identity", ("z",), ("out",)))
    types["z"] = types["out"] = registry()[op].infer(None, types["x"], types["y"])[0]
    return Graph(tuple(nodes), ("x", "y"), ("out",), types, {})


def expected(graph: Graph, inputs: dict[str, np.ndarray]) -> np.ndarray:
    values = dict(inputs)
    for node in graph.nodes:
        arrays = [values[str(name)] for name in node.inputs]
        result = registry()[node.op].reference(node.attributes, *arrays)
        for step in node.tail:
            result = registry()[step.op].reference(step.attributes, result)
        values[node.outputs[0]] = result
    return values["out"]


@pytest.mark.parametrize(
    "rounding",
    [GRID, replace(GRID, scale=0.37), replace(GRID, scale=0.25, pivot=-97), replace(GRID, pivot=3)],
    ids=["ones", "even", "up", "away"],
)
@pytest.mark.parametrize(
    ("op", "shapes"),
    [
        ("add", ("f32[1,13,11,7]", "f32[1,13,11,7]")),
        ("mul", ("f32[1,7,5,16]", "f32[1,1,1,16]")),
        ("sub", ("f32[2,5,3,13]", "f32[2,1,1,13]")),
        ("mul", ("f32[1,5,1,29]", "f32[1,5,1,1]")),
        ("maximum", ("f32[3,29]", "f32[3,29]")),
    ],
)
def test_pairs(
    device: DeviceInfo, op: str, shapes: tuple[str, str], rounding: FakeQuantize
) -> None:
    able = probe(device, quantised=True)
    if not able.packs_bytes:
        pytest.skip("this processor has no dot products of bytes")
    graph, random = pair(op, shapes, rounding), np.random.default_rng(11)
    inputs = {
        name: random.integers(-97, 158, graph.types[name].shape).astype(np.float32) for name in "xy"
    }
    plan = make_plan(graph, able, KernelOptions(form="list"))
    names = {launch.entry.rpartition("_")[0] for launch in plan.launches}
    whole = graph.types["z"].pixels >= 4 and rounding.pivot in (None, rounding.low)
    assert (f"{op}_bytes" if whole else op) in names
    player = make_player(device, plan)
    player.poison()
    (result,) = player.run(list(inputs.values()))
    player.close()
    wanted = expected(graph, inputs)
    assert len(np.unique(wanted)) > 20
    np.testing.assert_array_equal(result, wanted)


def test_move_ops_in_byte_plans(device: DeviceInfo) -> None:
    """Kernels of other ops in a byte plan have their own names and rounding."""
    able = probe(device, quantised=True)
    types = {name: TensorType.parse("f32[1,7,5,13]") for name in "xv"}
    types |= {name: TensorType.parse("f32[1,13,11,13]") for name in "yz"}
    nodes = (
        Node("fake_quantize", ("x",), ("v",), GRID),
        Node("resize_bilinear", ("v",), ("y",), Resize((13, 11), half_pixel_centers=True)),
        Node("floor", ("y",), ("z",)),
    )
    graph = Graph(nodes, ("x",), ("z",), types, {})
    x = np.random.default_rng(3).uniform(-90, 90, (1, 7, 5, 13)).astype(np.float32)
    player = make_player(device, make_plan(graph, able, KernelOptions()))
    (result,) = player.run([x])
    player.close()
    values = registry()["resize_bilinear"].reference(
        nodes[1].attributes, registry()["fake_quantize"].reference(GRID, x)
    )
    np.testing.assert_allclose(result, np.floor(values), atol=1.0)
    assert np.mean(result != np.floor(values)) < 0.02
