"""Winograd convolutions in every form against the reference, as launches and as one launch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest
from fake_devices import target_of
from half_precision import skip_without_halves
from interpreted_devices import PLAIN
from op_trials import TOLERANCE
from random_graphs import build

from fourfold.backends import make_player
from fourfold.backends.cpu.reference import evaluate
from fourfold.codegen.context import KernelOptions
from fourfold.compiler.lower import make_plan
from fourfold.compiler.lower.kernels import node_contexts
from fourfold.compiler.lower.locations import choose_locations
from fourfold.compiler.lower.specialise import specialise_target
from fourfold.compiler.rewrite import rewrite
from fourfold.compiler.tune import find_level, tune
from fourfold.device import DeviceInfo
from fourfold.graph import Graph

INTERPRETED = (PLAIN,)  # for fp16, which not every device computes
real_device = pytest.mark.devices(takes=lambda device: device.api != "interpret")
# Prime sizes, odd channels, several images, every kind of padding, tails with a residual.
NETWORK = """
input x: f32[1,13,11,5]
input y: f32[2,7,5,3]
const w0: f32[7,3,3,5]
const b0: f32[7]
const w1: f32[17,3,3,7]
const w2: f32[17,3,3,17]
const b2: f32[17]
const w3: f32[5,3,3,3]
const w4: f32[16,3,3,5]
const b4: f32[16]
a = conv2d(x, w0, b0; padding=Padding(1,1,1,1)) |> relu
b = conv2d(a, w1; padding=Padding(0,2,1,0))
c = conv2d(b, w2, b2; padding=Padding(1,1,1,1)) |> add(b) |> relu
d = conv2d(y, w3; padding=Padding(2,3,2,3)) |> tanh
e = conv2d(d, w4, b4) |> relu
output c, e
"""
FORMS = (
    "F2 apart 6x2x8 split 1 in 1x1",
    "F2 within 3x1x8 split 1 in 1x1",
    "F4 apart 5x2x8 split 1 in 1x1",
    "F4 within 6x2x8 split 1 in 1x1",
    "F2 apart 2x1x4 split 1 in 8x2",
    "F4 apart 1x2x4 split 1 in 4x4",
)


def ways(graph: Graph, device: DeviceInfo, options: KernelOptions, form: str) -> dict[str, str]:
    """Return this form as the choice for every convolution of the graph."""
    target = specialise_target(graph, target_of(device, options))
    every = node_contexts(graph, choose_locations(graph, target.options), target)
    return {context.key: f"winograd: {form}" for context in every if context.node.op == "conv2d"}


def inputs_of(graph: Graph, seed: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    shapes = {name: graph.types[name].shape for name in graph.inputs}
    return {name: random.uniform(-1, 1, s).astype(np.float32) for name, s in shapes.items()}


def compare(results: Iterable[np.ndarray], wanted: Iterable[np.ndarray], tolerance: float) -> None:
    for result, expected in zip(results, wanted, strict=True):
        assert not np.isnan(result).any()
        limit = tolerance * max(1.0, float(np.abs(expected).max()))
        np.testing.assert_allclose(result, expected, rtol=0, atol=limit)


@real_device
@pytest.mark.parametrize("precision", ["fp32", "mixed"])
@pytest.mark.parametrize("form", FORMS)
def test_every_form(form: str, precision: str, device: DeviceInfo) -> None:
    check(form, precision, device)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_in_fp16(form: str, device: DeviceInfo) -> None:
    skip_without_halves(device)
    check(form, "fp16", device)


def check(form: str, precision: str, device: DeviceInfo) -> None:
    graph, options = rewrite(build(NETWORK), verify=True), KernelOptions(precision, form="list")
    plan = make_plan(graph, device, options, ways(graph, device, options, form))
    assert sum("winograd" in launch.title for launch in plan.launches) >= 5
    player, inputs = make_player(device, plan), inputs_of(graph, seed=5)
    wanted = evaluate(graph, inputs)
    player.poison()
    compare(player.run(list(inputs.values())), map(wanted.get, graph.outputs), TOLERANCE[precision])
    player.close()


@real_device
@pytest.mark.parametrize("form", FORMS[1:5])
def test_as_stages_of_one_launch(form: str, device: DeviceInfo) -> None:
    graph = rewrite(build(NETWORK), verify=True)
    players = []
    for how in ("list", "one"):
        options = KernelOptions(form=how)
        plan = make_plan(graph, device, options, ways(graph, device, options, form))
        players.append(make_player(device, plan))
    for seed in range(40):
        inputs = list(inputs_of(graph, seed % 7).values())
        for player in players:
            player.poison()
        for one, other in zip(players[0].run(inputs), players[1].run(inputs), strict=True):
            assert not np.isnan(one).any()
            np.testing.assert_array_equal(one, other)
    for player in players:
        player.close()


@real_device
@pytest.mark.parametrize("form", FORMS[4:])
def test_as_a_gpu_would_read(form: str, device: DeviceInfo) -> None:
    """Kernels for a GPU, which read in fours with several work-items, on this device."""
    graph, options = rewrite(build(NETWORK), verify=True), KernelOptions(form="list")
    like = replace(device, kind="gpu")
    plan = make_plan(graph, like, options, ways(graph, like, options, form))
    player, inputs = make_player(device, plan), inputs_of(graph, seed=3)
    player.poison()
    wanted = evaluate(graph, inputs)
    compare(player.run(list(inputs.values())), map(wanted.get, graph.outputs), TOLERANCE["fp32"])
    player.close()


@real_device
def test_results_do_not_depend_on_tuning(device: DeviceInfo) -> None:
    graph = build(
        """
        input x: f32[1,17,19,12]
        const w: f32[20,3,3,12]
        a = relu(x)
        b = conv2d(a, w; padding=Padding(1,1,1,1)) |> relu
        output b
        """
    )
    options, inputs = KernelOptions(form="list"), list(inputs_of(graph, seed=9).values())
    found = tune(graph, device, options, find_level("rapid", 60))
    assert any(key.startswith("conv2d") for key in found)
    results = []
    for choices in ({}, found):
        player = make_player(device, make_plan(graph, device, options, choices))
        player.poison()
        results.append(player.run(inputs)[0])
        player.close()
    compare(results[1:], results[:1], TOLERANCE["fp32"])
