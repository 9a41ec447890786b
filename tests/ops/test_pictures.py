"""Every kernel that reads byte pictures gives the result of float pictures."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from emulated_warps import emulated, moves_reads, with_matrix_units
from fake_devices import H200, target_of
from random_graphs import build

from fourfold.backends import make_player
from fourfold.backends.cpu.reference import evaluate
from fourfold.backends.null import NULL_GPU
from fourfold.codegen.context import KernelOptions
from fourfold.compiler.lower import make_plan, specialise
from fourfold.compiler.lower.kernels import node_contexts, variants_of
from fourfold.compiler.lower.locations import choose_locations
from fourfold.compiler.rewrite import rewrite
from fourfold.compiler.rewrite.take_pixels import take_pixels
from fourfold.device import DeviceInfo
from fourfold.graph import Graph
from fourfold.ops.base import registry
from fourfold.plan import Plan
from fourfold.processing.pixels import Pixels

MEAN, STD = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
ORDERS = {
    "rgb": Pixels(127.5, 127.5),
    "bgr": Pixels(MEAN, STD, "bgr"),
    "rgba": Pixels(MEAN, STD, "rgba"),
    "bgra": Pixels(0.0, (255.0, 1.0, 51.0), "bgra"),
}
READERS = {
    "conv2d": "y = conv2d(x, w; stride=(2,2), padding=Padding(1,1,0,1)) |> relu6",
    "step by step": "y = conv2d(x, w; padding=Padding(1,1,1,1)) |> relu",
    "1x1": "y = conv2d(x, p)",
    "pad": """a = pad(x; before=(0,2,1,0), after=(0,1,3,0), value=0.0)
        y = conv2d(a, w; stride=(2,1))""",
    "value pad": "y = pad(x; before=(0,2,1,0), after=(0,1,3,0), value=3.5)",
    "more channels": "y = pad(x; before=(0,0,0,0), after=(0,0,0,4), value=0.0)",
    "depthwise": "y = depthwise_conv2d(x, d; padding=Padding(1,1,1,1))",
    "multiplied": "y = depthwise_conv2d(x, m; padding=Padding(1,1,1,1), multiplier=2)",
    "groups": "y = conv2d(x, g; padding=Padding(1,1,1,1), groups=3)",
    "pool": "y = max_pool2d(x; filter=(3,3), stride=(2,2), padding=Padding(1,1,1,1))",
    "mean": "y = mean(x; axes=(1,2), keep_dims=True)",
    "mean of channels": "y = mean(x; axes=(3,), keep_dims=True)",
    "pointwise": "y = mul(x, c) |> add(x) |> tanh",
    "reshape": "y = reshape(x; shape=(2,429))",
    "lines": """r = reshape(x; shape=(2,143,1,3))
        y = mul(r, c)""",
    "transpose": "y = transpose(x; permutation=(0,3,1,2))",
    "concat": "y = concat(x, x; axis=3)",
    "slice": """s = slice(x; begin=(0,0,0,1), size=(2,11,13,2), strides=(1,1,1,1))
        y = tanh(s)""",
    "crop": """s = slice(x; begin=(1,3,0,0), size=(1,5,13,3), strides=(1,1,1,1))
        y = tanh(s)""",
    "resize": "y = resize_bilinear(x; size=(7,17))",
    "softmax": "y = softmax(x)",
    "twice": """a = conv2d(x, w; padding=Padding(1,1,1,1))
        y = add_channels(a, x)""",
}
TEXT = """
    input x: f32[2,11,13,3]
    const w: f32[9,3,3,3]
    const p: f32[17,1,1,3]
    const d: f32[1,3,3,3]
    const m: f32[1,3,3,6]
    const g: f32[6,3,3,1]
    const c: f32[3]
    {}
    output y
"""


def graph_of(reader: str) -> Graph:
    return build(TEXT.format(READERS[reader]))


def photograph(pixels: Pixels, shape: tuple[int, ...] = (2, 11, 13), seed: int = 11) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (*shape, pixels.bytes), np.uint8)


def play(device: DeviceInfo, plan: Plan, picture: np.ndarray) -> np.ndarray:
    player = make_player(device, plan)
    player.poison()
    result = player.run([picture])[0]
    player.close()
    assert not np.isnan(result).any()
    return result


def near(result: np.ndarray, wanted: np.ndarray, tolerance: float) -> None:
    np.testing.assert_allclose(result, wanted, atol=tolerance * max(np.abs(wanted).max(), 1e-6))


@pytest.mark.parametrize("order", ["bgr", "rgba"])
@pytest.mark.parametrize("reader", READERS)
def test_as_floats(reader: str, order: str, device: DeviceInfo) -> None:
    graph, pixels = graph_of(reader), ORDERS[order]
    picture = photograph(pixels)
    wanted = evaluate(graph, {"x": pixels.real(picture)})["y"]
    taken = take_pixels(graph, {"x": pixels})
    near(evaluate(taken, {"x": picture})["y"], wanted, 1e-6)
    gpu = replace(device, kind="gpu", max_work_group=256, resident=False)
    for facts in dict.fromkeys((device, gpu)):
        plan = make_plan(rewrite(taken, verify=True), facts, KernelOptions(form="list"))
        near(play(device, plan, picture), wanted, 5e-6)


@pytest.mark.parametrize("order", ["bgr", "rgba"])
@pytest.mark.parametrize("reader", ["step by step", "1x1"])
def test_every_variant_of_a_reader(reader: str, order: str, device: DeviceInfo) -> None:
    graph, pixels = graph_of(reader), ORDERS[order]
    picture = photograph(pixels)
    wanted = evaluate(graph, {"x": pixels.real(picture)})["y"]
    taken, options = rewrite(take_pixels(graph, {"x": pixels})), KernelOptions(form="list")
    *_, context = node_contexts(taken, choose_locations(taken, options), target_of(device, options))
    ways = [
        one.name for one in variants_of(registry()[context.node.op]) if not one.refuses(context)
    ]
    assert len(ways) > 1
    for way in ways:
        plan = make_plan(taken, device, options, {context.key: f"{way}: "})
        near(play(device, plan, picture), wanted, 2e-5)  # Winograd rounds more


@pytest.mark.parametrize("order", ORDERS)
def test_mixed_precision_and_one_launch(order: str, device: DeviceInfo) -> None:
    graph, pixels = graph_of("conv2d"), ORDERS[order]
    picture = photograph(pixels)
    wanted = evaluate(graph, {"x": pixels.real(picture)})["y"]
    taken = rewrite(take_pixels(graph, {"x": pixels}))
    for precision, tolerance in (("fp32", 5e-6), ("mixed", 4e-3)):
        for form in ("list", "one"):
            plan = make_plan(taken, device, KernelOptions(precision, form=form))
            near(play(device, plan, picture), wanted, tolerance)


@pytest.mark.parametrize("kept", ["halves", "floats"])
@pytest.mark.parametrize("order", ORDERS)
def test_matrix_units(
    order: str, kept: str, device: DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not device.matrix_units and moves_reads(device):
        pytest.skip("the driver moves reads over barriers, as a small kernel shows")
    if kept == "halves":
        monkeypatch.setattr(specialise, "MAX_FP32_ARENA_BYTES", 0)
    graph, pixels = graph_of("conv2d"), ORDERS[order]
    halves = {n: a.astype(np.float16).astype(np.float32) for n, a in graph.constants.items()}
    graph, picture = replace(graph, constants=halves), photograph(pixels)
    taken = rewrite(take_pixels(graph, {"x": pixels}))
    plan = make_plan(taken, with_matrix_units(device), KernelOptions("mixed", form="list"))
    assert ["_matrix" in launch.entry for launch in plan.launches] == [True]
    result = play(device, plan if device.matrix_units else emulated(plan), picture)
    wanted = evaluate(graph, {"x": pixels.real(picture)})["y"]
    near(result, wanted, 4e-3 if kept == "halves" else 2e-5)


def test_a_gray_picture(device: DeviceInfo) -> None:
    graph = build("""
        input x: f32[3,5,7,1]
        const w: f32[8,3,3,1]
        y = conv2d(x, w; padding=Padding(1,1,1,1))
        output y
        """)
    pixels = Pixels(11.5, 37.0, "gray")
    picture = photograph(pixels, (3, 5, 7))
    plan = make_plan(rewrite(take_pixels(graph, {"x": pixels})), device, KernelOptions())
    near(play(device, plan, picture), evaluate(graph, {"x": pixels.real(picture)})["y"], 5e-6)


DEVICES = {"cpu": replace(NULL_GPU, kind="cpu"), "gpu": NULL_GPU, "matrix units": H200}
SAME = [name for name in READERS if name not in ("reshape", "concat", "slice")]


@pytest.mark.parametrize("reader", SAME)
@pytest.mark.parametrize("title", DEVICES)
@pytest.mark.parametrize("precision", ["fp32", "mixed"])
def test_no_kernel_is_added(reader: str, title: str, precision: str) -> None:
    for form in ("list", "one"):
        how = (DEVICES[title], KernelOptions(precision, form=form))
        before = make_plan(rewrite(graph_of(reader)), *how)
        for pixels in ORDERS.values():
            after = make_plan(rewrite(take_pixels(graph_of(reader), {"x": pixels})), *how)
            assert after.stages == before.stages
            assert after.bytes("arena") == before.bytes("arena")
            assert after.bytes("input") == 2 * 11 * 13 * pixels.bytes


def test_bytes_cross_the_bus() -> None:
    taken = rewrite(take_pixels(graph_of("conv2d"), {"x": ORDERS["rgba"]}))
    plan = make_plan(taken, H200, KernelOptions("mixed", form="one"))
    (port,) = plan.inputs
    assert plan.buffers[port.buffer].kind == "host"
    assert plan.buffers[port.buffer].bytes == 2 * 11 * 13 * 4
    assert "uchar4" in plan.program.text  # a pixel is one word
