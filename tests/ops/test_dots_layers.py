"""Single byte layers give the same integers as their NumPy references."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from interpreted_devices import X86

from fourfold.backends import make_player, probe
from fourfold.backends.opencl.feature_probes import adds_dots
from fourfold.codegen.context import KernelOptions
from fourfold.compiler.lower import make_plan
from fourfold.device import DeviceInfo
from fourfold.graph import NONE, Graph, Node, Step
from fourfold.ops.base import registry
from fourfold.ops.base.window import Padding
from fourfold.ops.conv2d import Conv2d
from fourfold.ops.depthwise_conv2d import DepthwiseConv2d
from fourfold.ops.dequantize import Dequantize
from fourfold.ops.fake_quantize import FakeQuantize
from fourfold.plan import Program
from fourfold.types import DType, TensorType

INTERPRETED = (X86,)
AROUND = Padding(1, 1, 1, 1)
GRID = FakeQuantize(1.0, -97, 158, 1.0)


def layer(node: Node, source: str, weights: tuple[int, ...], bytes_in: bool) -> Graph:
    """Return one layer between bytes; its input is rounded to bytes first, or is bytes already."""
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
            real = result.astype(np.float32)
            operands = [real if name is None else values[name] for name in step.inputs]
            result = registry()[step.op].reference(step.attributes, *operands)
        values[node.outputs[0]] = result
    return values["z"]


def check(device: DeviceInfo, graph: Graph, kernels: tuple[str, ...]) -> None:
    able = probe(device, quantised=True)
    if not able.packs_bytes:
        pytest.skip("this processor has no dot products of bytes")
    compare(device, able, graph, kernels)


def compare(
    device: DeviceInfo, facts: DeviceInfo, graph: Graph, kernels: tuple[str, ...], plain: str = ""
) -> None:
    """Compare a plan for a device with these facts; `plain` replaces the dot product functions."""
    random, type_ = np.random.default_rng(7), graph.types["x"]
    x = random.integers(-60, 60, type_.shape).astype(type_.dtype.numpy)
    if type_.dtype is DType.U8:
        x = random.integers(0, 256, type_.shape).astype(np.uint8)
    plan = make_plan(graph, facts, KernelOptions(form="list"))
    if plain and facts.language == "opencl":
        text = plan.program.text
        text = plain + text[text.index("// ") :]
        plan = replace(plan, program=Program(text, "-cl-std=CL1.2"))
    entries = {launch.entry.rpartition("_")[0] for launch in plan.launches}
    assert entries >= set(kernels), entries
    player = make_player(device, plan)
    player.poison()
    (result,) = player.run([x])
    player.close()
    wanted = expected(graph, x)
    assert not np.isnan(result).any()
    assert len(np.unique(wanted)) > 30
    assert np.abs(result - wanted).max() <= 1  # sums beyond 2**24 may be at a tie
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
        ("f32[2,5,7,11]", (48, 1, 1, 11), Conv2d()),
        ("f32[1,9,11,3]", (16, 3, 3, 3), Conv2d((1, 2), padding=AROUND)),
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


@pytest.mark.parametrize(
    ("source", "attributes"),
    [
        ("u8[1,7,8,3]", Conv2d()),
        ("u8[2,11,20,3]", Conv2d((2, 1), padding=Padding(2, 1, 1, 3))),
        ("u8[1,13,12,3]", Conv2d((2, 2), padding=Padding(0, 1, 0, 1))),
    ],
)
def test_pixels_of_three_bytes_fill_words(
    device: DeviceInfo, source: str, attributes: Conv2d
) -> None:
    node = Node("conv2d", ("v", "w", "b"), ("y",), attributes)
    graph = layer(node, source, (24, 3, 3, 3), bytes_in=True)
    check(device, graph, ("pad_rgb", "conv2d_dots"))


@pytest.mark.parametrize("outputs", [24, 40, 44])
def test_a_factor_of_each_channel(device: DeviceInfo, outputs: int) -> None:
    """Pairs of whole slices are stored with a different kernel path."""
    node = Node("conv2d", ("v", "w", "b"), ("y",), Conv2d())
    graph = layer(node, "f32[1,5,7,13]", (outputs, 1, 1, 13), bytes_in=False)
    factors = np.random.default_rng(outputs).uniform(0.5, 2.0, outputs).astype(np.float32)
    first, middle, last = graph.nodes
    middle = replace(middle, tail=(Step("mul", NONE, (None, "f")), *middle.tail))
    types = {**graph.types, "f": TensorType.of(factors)}
    constants = {**graph.constants, "f": factors}
    nodes = (first, middle, last)
    graph = replace(graph, nodes=nodes, types=types, constants=constants)
    check(device, graph, ("conv2d_1x1_dots",))


@pytest.mark.parametrize("source", ["f32[1,128]", "f32[5,31]", "f32[2,3,7]", "f32[1,1,1,37]"])
def test_fully_connected(device: DeviceInfo, source: str) -> None:
    channels = TensorType.parse(source).channels
    node = Node("fully_connected", ("v", "w", "b"), ("y",))
    graph = layer(node, source, (53, channels), bytes_in=False)
    check(device, graph, ("fully_connected_dots",))


# Plain C for what an extension or an instruction computes elsewhere.
PLAIN = """
static int dot_of(int bytes, int weights)
{
    int sum = 0;
    for (int n = 0; n < 4; n++)
        sum += (int)(uchar)(bytes >> 8 * n) * (int)(char)(weights >> 8 * n);
    return sum;
}
static void add_few_dots(int4 *sum, int4 bytes, int4 weights)
{
    *sum += (int4)(dot_of(bytes.s0, weights.s0), dot_of(bytes.s1, weights.s1),
        dot_of(bytes.s2, weights.s2), dot_of(bytes.s3, weights.s3));
}
static void add_dots(int8 *sum, int8 bytes, int8 weights)
{
    int4 low = sum->lo, high = sum->hi;
    add_few_dots(&low, bytes.lo, weights.lo);
    add_few_dots(&high, bytes.hi, weights.hi);
    *sum = (int8)(low, high);
}
"""


@pytest.mark.parametrize("spelling", ["ptx", "khr"])
@pytest.mark.parametrize("odd", [0, 150], ids=["bytes", "wide"])
@pytest.mark.parametrize(
    ("source", "weights", "attributes"),
    [
        ("f32[1,13,11,5]", (19, 1, 1, 5), Conv2d()),
        ("f32[1,3,2,208]", (72, 1, 1, 208), Conv2d()),
        ("f32[2,7,5,13]", (8, 5, 3, 13), Conv2d((2, 1), padding=Padding(2, 2, 0, 1))),
        ("u8[1,23,19,3]", (16, 3, 3, 3), Conv2d((2, 2), padding=Padding(0, 1, 0, 1))),
    ],
)
def test_gpus_with_dot_products(
    device: DeviceInfo,
    source: str,
    weights: tuple[int, ...],
    attributes: Conv2d,
    odd: int,
    spelling: str,
) -> None:
    """Run a GPU's kernels with dot products in plain C."""
    if spelling == "khr" and device.api == "cuda":
        pytest.skip("CUDA has no such spelling")
    facts = replace(device, kind="gpu", compute_units=4, max_work_group=64, matrix_units=False)
    facts = replace(facts, dot_products=spelling)
    node = Node("conv2d", ("v", "w", "b"), ("y",), attributes)
    graph = layer(node, source, weights, bytes_in=not source.startswith("f32"))
    if odd:
        graph.constants["w"].flat[-1] = odd
    plan = make_plan(graph, facts, KernelOptions(form="list"))
    assert plan.requirements.dot_products == spelling
    if facts.language == "opencl":
        assert {"ptx": "dp4a", "khr": "dot_4x8packed"}[spelling] in plan.program.text
    compare(device, facts, graph, (), PLAIN)


def test_matrix_units_are_preferred(device: DeviceInfo) -> None:
    facts = replace(device, kind="gpu", dot_products="ptx", matrix_units=True)
    node = Node("conv2d", ("v", "w", "b"), ("y",), Conv2d())
    graph = layer(node, "f32[1,7,5,16]", (16, 1, 1, 16), bytes_in=False)
    for precision in ("fp32", "mixed"):
        plan = make_plan(graph, facts, KernelOptions(precision, form="list"))
        assert plan.requirements.matrix_units == (precision == "mixed")
        assert not plan.requirements.dot_products


@pytest.mark.devices(takes=lambda device: device.api == "opencl")
def test_an_extension_for_dot_products(device: DeviceInfo) -> None:
    """Run the real extension if a device has it."""
    if not adds_dots(device, "khr"):
        pytest.skip("the device has no cl_khr_integer_dot_product")
    node = Node("conv2d", ("v", "w", "b"), ("y",), Conv2d(padding=AROUND))
    graph = layer(node, "f32[1,13,11,5]", (19, 3, 3, 5), bytes_in=False)
    facts = replace(device, kind="gpu", max_work_group=64, dot_products="khr")
    compare(device, facts, graph, ("pad_words",))
