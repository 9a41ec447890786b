"""Kernels for matrix units against the references: interpreted, and emulated on other devices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from emulated_warps import emulated, moves_reads, with_matrix_units
from fake_devices import target_of
from interpreted_devices import NVIDIA
from random_graphs import build

from fourfold.backends import make_player
from fourfold.backends.cpu.reference import evaluate
from fourfold.codegen.context import KernelOptions
from fourfold.compiler.lower import make_plan, specialise
from fourfold.compiler.lower.kernels import node_contexts
from fourfold.compiler.lower.locations import choose_locations
from fourfold.device import DeviceInfo
from fourfold.graph import Graph
from fourfold.ops.kernels.matrix import tile as matrix_tile

INTERPRETED = (NVIDIA,)
GRAPHS = {
    "few channels": """
        input x: f32[1,13,11,3]
        const w: f32[11,3,3,3]
        const b: f32[11]
        y = conv2d(x, w, b; stride=(2,1), padding=Padding(1,1,0,1)) |> relu
        output y
        """,
    "some taps a step": """
        input x: f32[2,7,5,20]
        const w: f32[9,3,1,20]
        y = conv2d(x, w; dilation=(2,1), padding=Padding(2,2,0,0))
        output y
        """,
    "whole steps": """
        input x: f32[1,5,7,32]
        const w: f32[37,3,3,32]
        const b: f32[37]
        const r: f32[1,5,7,37]
        y = conv2d(x, w, b; padding=Padding(1,1,1,1)) |> add(r) |> relu6
        output y
        """,
    "one pixel at a time": """
        input x: f32[1,3,7,64]
        const w: f32[24,1,1,64]
        y = conv2d(x, w)
        output y
        """,
    "two layers": """
        input x: f32[1,5,6,32]
        const v: f32[64,3,3,32]
        const w: f32[24,1,1,64]
        const b: f32[24]
        m = conv2d(x, v; padding=Padding(1,1,1,1)) |> relu
        y = conv2d(m, w, b)
        output y
        """,
    "rows": """
        input x: f32[17,61]
        const w: f32[13,61]
        const b: f32[13]
        y = fully_connected(x, w, b)
        output y
        """,
    "a filter on the way": """
        input x: f32[1,9,7,32]
        const f: f32[1,3,3,32]
        const w: f32[13,1,1,32]
        const g: f32[32]
        const b: f32[13]
        y = separable_conv2d(x, f, w, g, b; stride=(2,1), padding=Padding(1,1,1,1), high=0.5)
        output y
        """,
    "a filter of two batches": """
        input x: f32[2,5,3,64]
        const f: f32[1,3,3,64]
        const w: f32[8,1,1,64]
        y = separable_conv2d(x, f, w; padding=Padding(1,1,1,1), low=0.0)
        output y
        """,
    "a filter over even lines": """
        input p: f32[2,5,22,16]
        const v: f32[32,1,1,16]
        x = conv2d(p, v)
        const f: f32[1,3,3,32]
        const w: f32[19,1,1,32]
        const g: f32[32]
        y = separable_conv2d(x, f, w, g; padding=Padding(1,1,1,1), high=0.5) |> relu
        output y
        """,
    "a filter in steps of two": """
        input p: f32[1,8,14,16]
        const v: f32[64,1,1,16]
        x = conv2d(p, v)
        const f: f32[1,3,3,64]
        const w: f32[8,1,1,64]
        y = separable_conv2d(x, f, w; stride=(2,2), padding=Padding(0,1,0,1), low=0.0)
        output y
        """,
    "a filter in steps of two, padded on both sides": """
        input p: f32[1,7,18,16]
        const v: f32[32,1,1,16]
        x = conv2d(p, v)
        const f: f32[1,3,3,32]
        const w: f32[8,1,1,32]
        y = separable_conv2d(x, f, w; stride=(1,2), padding=Padding(1,1,1,1))
        output y
        """,
    "a filter with gaps": """
        input p: f32[1,9,11,16]
        const v: f32[32,1,1,16]
        x = conv2d(p, v)
        const f: f32[1,3,3,32]
        const w: f32[8,1,1,32]
        y = separable_conv2d(x, f, w; dilation=(2,2), padding=Padding(2,2,2,2))
        output y
        """,
    "a filter without padding over odd lines": """
        input p: f32[1,5,9,16]
        const v: f32[32,1,1,16]
        x = conv2d(p, v)
        const f: f32[1,3,3,32]
        const w: f32[8,1,1,32]
        y = separable_conv2d(x, f, w)
        output y
        """,
    "a filter without padding over even lines": """
        input p: f32[2,5,8,16]
        const v: f32[32,1,1,16]
        x = conv2d(p, v)
        const f: f32[1,3,3,32]
        const w: f32[8,1,1,32]
        y = separable_conv2d(x, f, w)
        output y
        """,
    "a filter that reaches far": """
        input p: f32[1,3,20,16]
        const v: f32[32,1,1,16]
        x = conv2d(p, v)
        const f: f32[1,1,5,32]
        const w: f32[8,1,1,32]
        y = separable_conv2d(x, f, w; padding=Padding(0,0,2,2))
        output y
        """,
    "a filter of one tap": """
        input p: f32[1,4,10,16]
        const v: f32[32,1,1,16]
        x = conv2d(p, v)
        const f: f32[1,1,1,32]
        const w: f32[8,1,1,32]
        y = separable_conv2d(x, f, w; stride=(2,2))
        output y
        """,
}
TILES = (
    "1x1 by 1 split 1 ahead 1",
    "1x2 by 1 split 1 ahead 2",
    "2x1 by 2 split 1 ahead 1",
    "1x1 by 1 split 1 ahead 1 early",
)
# work-items that share a reduction exchange sums in local memory
SHARED = "1x2 by 1 split 2 ahead 1"
SHARING = ("whole steps", "one pixel at a time", "a filter on the way", "a filter over even lines")
EMULATED = ("whole steps", "a filter on the way")  # few, because emulation is slow
has_units = pytest.mark.devices(takes=lambda device: device.matrix_units)
lacks_units = pytest.mark.devices(takes=lambda device: not device.matrix_units)


def choices(graph: Graph, device: DeviceInfo, tile: str) -> dict[str, str]:
    target = specialise.specialise_target(graph, target_of(device, KernelOptions("mixed")))
    found = node_contexts(graph, choose_locations(graph, target.options), target)
    return {context.key: f"matrix: {tile}" for context in found}


@pytest.fixture(params=["halves", "floats"])
def kept(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Set the storage of values: small ones, as all of these are, stay fp32 unless disabled."""
    if request.param == "halves":
        monkeypatch.setattr(specialise, "MAX_FP32_ARENA_BYTES", -1)
    return str(request.param)


@has_units
@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("title", GRAPHS)
def test_against_the_reference(title: str, tile: str, device: DeviceInfo, kept: str) -> None:
    check(title, tile, device, kept)


@lacks_units
@pytest.mark.parametrize("tile", [TILES[0], SHARED])
@pytest.mark.parametrize("title", EMULATED)
def test_emulated(title: str, tile: str, device: DeviceInfo, kept: str) -> None:
    if moves_reads(device):
        pytest.skip("the driver moves reads over barriers, as a small kernel shows")
    check(title, tile, device, kept)


@has_units
@pytest.mark.parametrize("title", SHARING)
def test_shared_reductions(title: str, device: DeviceInfo, kept: str) -> None:
    check(title, SHARED, device, kept)


@has_units
def test_few_registers(device: DeviceInfo, kept: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix_tile, "MAX_REGISTERS", 104 if kept == "halves" else 164)
    check("a filter in steps of two", "1x1 by 1 split 1 ahead 4", device, kept)


@has_units
def test_more_weights_than_a_cache_holds(
    device: DeviceInfo, kept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(specialise, "CACHE_BYTES", 32 << 10)
    text = GRAPHS["two layers"]
    # Weights are not streamed if the activations exceed the cache, too.
    for change, streams in (("5,6", True), ("50,60", False)):
        graph = build(text.replace("5,6", change))
        plan = make_plan(graph, with_matrix_units(device), KernelOptions("mixed", form="list"))
        kernels = plan.program.text
        assert ("evict_first" in kernels or "load_words_streamed" in kernels) is streams
    check("two layers", TILES[0], device, kept)


def check(title: str, tile: str, device: DeviceInfo, kept: str) -> None:
    graph = build(GRAPHS[title])
    if kept == "halves":  # weights are fp16, too, so use weights that are exact in fp16
        halves = {n: a.astype(np.float16).astype(np.float32) for n, a in graph.constants.items()}
        graph = replace(graph, constants=halves)
    fake = with_matrix_units(device)
    options = KernelOptions("mixed", form="list")
    plan = make_plan(graph, fake, options, choices(graph, fake, tile))
    assert all("_matrix" in launch.entry for launch in plan.launches)
    player = make_player(device, plan if device.matrix_units else emulated(plan))
    random = np.random.default_rng(5)
    x = {name: random.uniform(-1, 1, graph.types[name].shape) for name in graph.inputs}
    x = {name: value.astype(np.float32) for name, value in x.items()}
    player.poison()
    result = player.run(list(x.values()))[0]
    player.close()
    wanted = evaluate(graph, x)["y"]
    assert not np.isnan(result).any()
    # Matrix units round their sums, too, and more coarsely than fp32.
    rounds = device.matrix_units and device.api != "interpret"
    near = 4e-3 if kept == "halves" else 2e-5 if rounds else 2e-6
    np.testing.assert_allclose(result, wanted, atol=near * np.abs(wanted).max())


def test_floats_beyond_the_fp16_range(device: DeviceInfo) -> None:
    if not device.matrix_units and moves_reads(device):
        pytest.skip("the driver moves reads over barriers, as a small kernel shows")
    graph = build(GRAPHS["one pixel at a time"])
    plan = make_plan(graph, with_matrix_units(device), KernelOptions("mixed", form="list"))
    player = make_player(device, plan if device.matrix_units else emulated(plan))
    x = np.random.default_rng(6).uniform(-9e4, 9e4, (1, 3, 7, 64)).astype(np.float32)
    result, wanted = player.run([x])[0], evaluate(graph, {"x": x})["y"]
    player.close()
    np.testing.assert_allclose(result, wanted, atol=2e-3 * np.abs(wanted).max())
