"""Weights read through images give the results of buffers, in every kernel form; with a
fallback.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from fake_devices import target_of
from half_precision import skip_without_halves
from interpreted_devices import IMAGES as WITH_IMAGES
from op_trials import TOLERANCE
from random_graphs import build

from fourfold.backends import determine_facts, make_player
from fourfold.backends.cpu.reference import evaluate
from fourfold.codegen.context import KernelOptions
from fourfold.compiler.lower import make_plan
from fourfold.compiler.lower.kernels import node_contexts
from fourfold.compiler.lower.locations import choose_locations
from fourfold.device import IMAGES, DeviceInfo
from fourfold.graph import Graph
from fourfold.ops.kernels.conv.tile import ConvTile
from fourfold.plan import BufferUse, Plan

INTERPRETED = (WITH_IMAGES,)
NETWORK = """
    input x: f32[1,13,11,5]
    const u: f32[19,3,3,5]
    const v: f32[37,1,1,19]
    const b: f32[37]
    const w: f32[7,1554]
    a = conv2d(x, u; stride=(2,2), padding=Padding(1,1,1,1)) |> relu
    c = conv2d(a, v, b)
    d = reshape(c; shape=(1,1554))
    y = fully_connected(d, w) |> tanh
    output y
"""
FORMS = {
    "as it is": {},
    "as a GPU": {"kind": "gpu", "compute_units": 16, "max_work_group": 128},
    "as a large GPU": {"kind": "gpu", "compute_units": 64, "max_work_group": 1024},
}


def network() -> Graph:
    """Return a network with fp16 weights, some of which are stored as fp16 in mixed precision."""
    graph = build(NETWORK)
    halves = {name: array.astype(np.float16) for name, array in graph.constants.items()}
    return replace(
        graph, constants={name: array.astype(np.float32) for name, array in halves.items()}
    )


def images(plan: Plan) -> list[BufferUse]:
    arguments = (one for launch in plan.launches for one in launch.arguments)
    return [one for one in arguments if isinstance(one, BufferUse) and one.image is not None]


@pytest.fixture
def able(device: DeviceInfo) -> DeviceInfo:
    found = replace(determine_facts(device, IMAGES), matrix_units=False)
    if not found.image_texels:
        pytest.skip(f"{device.name} has no images of buffers")
    return found


def check(plan: Plan, able: DeviceInfo, graph: Graph, precision: str = "fp32") -> np.ndarray:
    """Return the result of a plan after comparing it with the references."""
    x = np.random.default_rng(5).uniform(-1, 1, graph.types["x"].shape).astype(np.float32)
    player = make_player(able, plan)
    player.poison()
    (result,) = player.run([x])
    player.close()
    wanted = evaluate(graph, {"x": x})["y"]
    limit = TOLERANCE[precision] * max(1.0, float(np.abs(wanted).max()))
    assert np.abs(result - wanted).max() <= limit
    return result


@pytest.mark.parametrize("precision", TOLERANCE)
@pytest.mark.parametrize("form", FORMS)
def test_results_match_buffers(form: str, precision: str, able: DeviceInfo) -> None:
    skip_without_halves(able, precision)
    graph, options = network(), KernelOptions(precision, form="list")
    like = replace(able, **FORMS[form])
    plan = make_plan(graph, replace(like, prefers_images=True), options)
    plain = make_plan(graph, replace(like, prefers_images=False), options)
    kind = "f32" if precision == "fp32" else "f16"
    assert [use.image.dtype.value for use in images(plan) if use.image] == [kind] * 3
    assert not images(plain)
    result = check(plan, able, graph, precision)
    assert np.array_equal(result, check(plain, able, graph, precision))


@pytest.mark.parametrize("precision", ["fp32", "mixed"])
def test_images_may_begin_near_the_weights(precision: str, able: DeviceInfo) -> None:
    if not able.image_windows:
        pytest.skip("images of this device begin where buffers do")
    graph, options = network(), KernelOptions(precision, form="list")
    uses = images(make_plan(graph, replace(able, prefers_images=True), options))
    longest = max(use.end_of_image for use in uses)
    few = replace(able, image_texels=longest - 1, prefers_images=True)
    plan = make_plan(graph, few, options)
    assert images(plan) == uses
    check(plan, few, graph, precision)


def test_large_weights_use_the_buffer(able: DeviceInfo) -> None:
    graph = network()
    few = replace(able, image_texels=1000, image_windows=False, prefers_images=True)
    plan = make_plan(graph, few, KernelOptions(form="list"))
    assert 0 < len(images(plan)) < 3
    check(plan, few, graph)


@pytest.mark.devices(takes=lambda device: device.is_cpu or device.resident)
def test_one_launch_has_no_images(able: DeviceInfo) -> None:
    graph, facts = network(), replace(able, prefers_images=True)
    plan = make_plan(graph, facts, KernelOptions(form="one"))
    assert len(plan.launches) == 1
    assert not images(plan)
    assert not plan.requirements.images
    check(plan, able, graph)


def test_a_choice_selects_an_image_if_supported(able: DeviceInfo) -> None:
    graph, options = network(), KernelOptions(form="list")
    able = replace(able, prefers_images=False)
    keys = [
        one.key
        for one in node_contexts(graph, choose_locations(graph, options), target_of(able, options))
    ]
    chosen = {keys[1]: f"tiled: {ConvTile(3, 1, 8, image=True)}"}
    plan = make_plan(graph, able, options, chosen)
    assert [use.image.shape[0] for use in images(plan) if use.image] == [5 * 4 * 5 * 2]
    check(plan, able, graph)
    without = make_plan(graph, replace(able, image_texels=0), options, chosen)
    assert not images(without)
    assert not without.requirements.images
    check(without, able, graph)
