"""Kernels that read or write channels-first images give the results of channels-last."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from fake_devices import target_of
from interpreted_devices import NVIDIA
from random_graphs import build

from fourfold.backends import make_player
from fourfold.backends.cpu.reference import evaluate
from fourfold.codegen.context import KernelOptions
from fourfold.compiler.lower import make_plan
from fourfold.compiler.lower.kernels import node_contexts, variants_of
from fourfold.compiler.lower.locations import choose_locations
from fourfold.compiler.rewrite import rewrite
from fourfold.device import DeviceInfo
from fourfold.graph import Graph
from fourfold.ops.base import registry
from fourfold.plan import Plan

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
    p = planes_to_pixels(x)
    {}
    output y
"""
# The same with more channels than one slice has; the last slice is partial.
WIDE_READERS = {
    "conv2d": "y = conv2d(p, w; stride=(2,2), padding=Padding(1,1,0,1)) |> relu6",
    "step by step": "y = conv2d(p, w; padding=Padding(1,1,1,1)) |> relu",
    "1x1": "y = conv2d(p, q)",
    "depthwise": "y = depthwise_conv2d(p, d; padding=Padding(1,1,1,1))",
    "pool": "y = max_pool2d(p; filter=(3,3), stride=(2,2), padding=Padding(1,1,1,1))",
    "mean": "y = mean(p; axes=(1,2), keep_dims=True)",
    "pointwise": "y = mul(p, c) |> add(p) |> tanh",
    "concat": "y = concat(p, p; axis=3)",
    "slice": """s = slice(p; begin=(0,0,0,1), size=({images},11,13,5), strides=(1,1,1,1))
        y = tanh(s)""",
    "one image": """s = slice(p; begin=(0,0,0,0), size=(1,11,13,7), strides=(1,1,1,1))
        y = tanh(s)""",
    "resize": "y = resize_bilinear(p; size=(7,17))",
    "softmax": "y = softmax(p)",
}
WIDE_TEXT = """
    input x: f32[{images},7,11,13]
    const w: f32[9,3,3,7]
    const q: f32[17,1,1,7]
    const d: f32[1,3,3,7]
    const c: f32[7]
    p = planes_to_pixels(x)
    {}
    output y
"""
# Planes of seven and of two channels, written by the kernel that computes the pixels.
WRITERS = {
    "conv2d": "p = conv2d(x, w; stride=(2,2), padding=Padding(1,1,0,1)) |> relu6",
    "step by step": "p = conv2d(x, w; padding=Padding(1,1,1,1)) |> relu",
    "1x1": "p = conv2d(x, q) |> add(z)",
    "depthwise": """a = conv2d(x, q)
        p = depthwise_conv2d(a, d; padding=Padding(1,1,1,1))""",
    "transposed": """
        p = transpose_conv2d(x, t; stride=(2,2), padding=Padding(0,0,0,0), size=(23,27))""",
    "pool": """a = conv2d(x, q)
        p = max_pool2d(a; filter=(3,3), stride=(2,2), padding=Padding(1,1,1,1))""",
    "pointwise": "p = mul(z, s) |> tanh",
    "concat": """a = conv2d(x, q)
        b = conv2d(x, w; padding=Padding(1,1,1,1))
        p = concat(a, b; axis=3)""",
    "rows of pixels": """a = conv2d(x, q)
        p = reshape(a; shape=({images},143,{outputs}))""",
    "resize": """a = conv2d(x, q)
        p = resize_bilinear(a; size=(23,17))""",
    "softmax": """a = conv2d(x, q)
        p = softmax(a)""",
    "mean": """a = conv2d(x, q)
        p = mean(a; axes=(2,), keep_dims=True)""",
}
WRITTEN = """
    input x: f32[{images},11,13,5]
    input z: f32[{images},11,13,{outputs}]
    const w: f32[{outputs},3,3,5]
    const q: f32[{outputs},1,1,5]
    const d: f32[1,3,3,{outputs}]
    const t: f32[{outputs},3,3,5]
    const s: f32[{outputs}]
    {}
    y = transpose(p; permutation={order})
    output y
"""
OPTIONS = KernelOptions(form="list")
INTERPRETED = (NVIDIA,)


def graph_of(reader: str, images: int = 1) -> Graph:
    return build(TEXT.format(images, READERS[reader]))


def image(images: int = 1, channels: int = 3) -> np.ndarray:
    rng = np.random.default_rng(5)
    return rng.uniform(-2, 2, (images, channels, 11, 13)).astype(np.float32)


def writing(writer: str, images: int, outputs: int) -> Graph:
    order = "(0,2,1)" if writer == "rows of pixels" else "(0,3,1,2)"
    sizes = {"images": images, "outputs": outputs}
    return build(WRITTEN.format(WRITERS[writer].format(**sizes), order=order, **sizes))


def play(device: DeviceInfo, plan: Plan, *inputs: np.ndarray) -> np.ndarray:
    player = make_player(device, plan)
    player.poison()
    result = player.run(list(inputs))[0]
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
def test_every_variant_of_a_reader(reader: str, device: DeviceInfo) -> None:
    graph, x = rewrite(graph_of(reader)), image()
    wanted = evaluate(graph, {"x": x})["y"]
    *_, context = node_contexts(graph, choose_locations(graph, OPTIONS), target_of(device, OPTIONS))
    ways = [
        one.name for one in variants_of(registry()[context.node.op]) if not one.refuses(context)
    ]
    assert ways
    for way in ways:
        plan = make_plan(graph, device, OPTIONS, {context.key: f"{way}: "})
        near(play(device, plan, x), wanted, 2e-5)  # Winograd rounds more


@pytest.mark.parametrize("images", [1, 2, 3])
def test_images_need_no_kernel(images: int, device: DeviceInfo) -> None:
    graph, x = rewrite(graph_of("conv2d", images)), image(images)
    plan = make_plan(graph, device, OPTIONS)
    assert len(plan.launches) == 1
    near(play(device, plan, x), evaluate(graph, {"x": x})["y"], 5e-6)


def as_gpu(device: DeviceInfo) -> DeviceInfo:
    return replace(device, kind="gpu", max_work_group=256, resident=False)


@pytest.mark.parametrize("images", [1, 2])
@pytest.mark.parametrize("reader", WIDE_READERS)
def test_more_channels_and_images(reader: str, images: int, device: DeviceInfo) -> None:
    text = WIDE_TEXT.format(WIDE_READERS[reader].format(images=images), images=images)
    graph, x = build(text), image(images, 7)
    wanted = evaluate(graph, {"x": x})["y"]
    for facts in dict.fromkeys((device, as_gpu(device))):
        plan = make_plan(rewrite(graph, verify=True), facts, OPTIONS)
        assert not any("planes_to_pixels" in one.entry for one in plan.launches)
        near(play(device, plan, x), wanted, 5e-6)


@pytest.mark.parametrize(("images", "outputs"), [(1, 7), (2, 7), (1, 2)])
@pytest.mark.parametrize("writer", WRITERS)
def test_planes_are_written(writer: str, images: int, outputs: int, device: DeviceInfo) -> None:
    graph = writing(writer, images, outputs)
    rng = np.random.default_rng(5)
    inputs = {
        name: rng.uniform(-2, 2, graph.types[name].shape).astype(np.float32)
        for name in graph.inputs
    }
    wanted = evaluate(graph, inputs)["y"]
    for facts in dict.fromkeys((device, as_gpu(device))):
        plan = make_plan(rewrite(graph, verify=True), facts, OPTIONS)
        near(play(device, plan, *inputs.values()), wanted, 2e-5)
        made = {one.entry.rpartition("_")[0] for one in plan.launches}
        assert made.isdisjoint(("transpose", "pixels_to_planes"))


@pytest.mark.parametrize("images", [1, 2])
@pytest.mark.parametrize("writer", ["conv2d", "1x1", "depthwise"])
def test_matrix_units_write_planes(writer: str, images: int) -> None:
    graph = writing(writer, images, 23)
    rng = np.random.default_rng(5)
    inputs = {
        name: rng.uniform(-2, 2, graph.types[name].shape).astype(np.float32)
        for name in graph.inputs
    }
    plan = make_plan(rewrite(graph), NVIDIA, KernelOptions("mixed", form="list"))
    near(play(NVIDIA, plan, *inputs.values()), evaluate(graph, inputs)["y"], 1e-2)
