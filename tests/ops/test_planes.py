"""Images that come plane by plane: every kernel that reads them gives what pixels would give."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from fake_devices import target_of
from random_graphs import build

from fourfold.cpu.reference import evaluate
from fourfold.device import DeviceInfo
from fourfold.graph import Graph
from fourfold.kernel.context import KernelOptions
from fourfold.lower import make_plan
from fourfold.lower.kernels import node_contexts, variants_of
from fourfold.lower.locations import choose_locations
from fourfold.op.registry import registry
from fourfold.plan import Plan
from fourfold.players import make_player
from fourfold.rewrite import rewrite

READERS = {
    "conv2d": "y = conv2d(p, w; stride=(2,2), padding=Padding(1,1,0,1)) |> relu6",
    "step by step": "y = conv2d(p, w; padding=Padding(1,1,1,1)) |> relu",
    "1x1": "y = conv2d(p, q)",
    "pad": """a = pad(p; before=(0,2,1,0), after=(0,1,3,0), value=0.0)
        y = conv2d(a, w; stride=(2,1))""",
    "value pad": "y = pad(p; before=(0,2,1,0), after=(0,1,3,0), value=3.5)",
    "more channels": "y = pad(p; before=(0,0,0,0), after=(0,0,0,4), value=0.0)",
    "depthwise": "y = depthwise_conv2d(p, d; padding=Padding(1,1,1,1))",
    "multiplied": "y = depthwise_conv2d(p, m; padding=Padding(1,1,1,1), multiplier=2)",
    "groups": "y = conv2d(p, g; padding=Padding(1,1,1,1), groups=3)",
    "pool": "y = max_pool2d(p; filter=(3,3), stride=(2,2), padding=Padding(1,1,1,1))",
    "mean": "y = mean(p; axes=(1,2), keep_dims=True)",
    "mean of channels": "y = mean(p; axes=(3,), keep_dims=True)",
    "pointwise": "y = mul(p, c) |> add(p) |> tanh",
    "reshape": "y = reshape(p; shape=(1,429))",
    "lines": """r = reshape(p; shape=(1,143,1,3))
        y = mul(r, c)""",
    "concat": "y = concat(p, p; axis=3)",
    "slice": """s = slice(p; begin=(0,0,0,1), size=(1,11,13,2), strides=(1,1,1,1))
        y = tanh(s)""",
    "crop": """s = slice(p; begin=(0,3,0,0), size=(1,5,13,3), strides=(1,1,1,1))
        y = tanh(s)""",
    "resize": "y = resize_bilinear(p; size=(7,17))",
    "softmax": "y = softmax(p)",
    "twice": """a = conv2d(p, w; padding=Padding(1,1,1,1))
        y = add_channels(a, p)""",
    "as it is": "y = identity(p)",
}
TEXT = """
    input x: f32[{},3,11,13]
    const w: f32[9,3,3,3]
    const q: f32[17,1,1,3]
    const d: f32[1,3,3,3]
    const m: f32[1,3,3,6]
    const g: f32[6,3,3,1]
    const c: f32[3]
    p = planes(x)
    {}
    output y
"""
OPTIONS = KernelOptions(form="list")


def graph_of(reader: str, images: int = 1) -> Graph:
    return build(TEXT.format(images, READERS[reader]))


def image(images: int = 1) -> np.ndarray:
    rng = np.random.default_rng(5)
    return rng.uniform(-2, 2, (images, 3, 11, 13)).astype(np.float32)


def play(device: DeviceInfo, plan: Plan, x: np.ndarray) -> np.ndarray:
    player = make_player(device, plan)
    player.poison()
    result = player.run([x])[0]
    player.close()
    assert not np.isnan(result).any()
    return result


def near(result: np.ndarray, wanted: np.ndarray, tolerance: float) -> None:
    np.testing.assert_allclose(result, wanted, atol=tolerance * max(np.abs(wanted).max(), 1e-6))


@pytest.mark.parametrize("reader", READERS)
def test_as_pixels(reader: str, device: DeviceInfo) -> None:
    graph, x = graph_of(reader), image()
    wanted = evaluate(graph, {"x": x})["y"]
    gpu = replace(device, kind="gpu", max_work_group=256, resident=False)
    for facts in dict.fromkeys((device, gpu)):
        plan = make_plan(rewrite(graph, verify=True), facts, OPTIONS)
        near(play(device, plan, x), wanted, 5e-6)


@pytest.mark.parametrize("reader", ["step by step", "1x1", "depthwise"])
def test_every_way_to_run_a_reader(reader: str, device: DeviceInfo) -> None:
    graph, x = rewrite(graph_of(reader)), image()
    wanted = evaluate(graph, {"x": x})["y"]
    *_, context = node_contexts(graph, choose_locations(graph, OPTIONS), target_of(device, OPTIONS))
    ways = [
        one.name for one in variants_of(registry()[context.node.op]) if not one.refuses(context)
    ]
    assert ways
    for way in ways:
        plan = make_plan(graph, device, OPTIONS, {context.key: f"{way}: "})
        near(play(device, plan, x), wanted, 2e-5)  # Winograd's sums are rounded more


def test_several_images_are_copied(device: DeviceInfo) -> None:
    graph, x = rewrite(graph_of("conv2d", images=2)), image(2)
    plan = make_plan(graph, device, OPTIONS)
    assert len(plan.launches) == 2
    near(play(device, plan, x), evaluate(graph, {"x": x})["y"], 5e-6)


def test_one_image_needs_no_kernel(device: DeviceInfo) -> None:
    assert len(make_plan(rewrite(graph_of("conv2d")), device, OPTIONS).launches) == 1
