"""Pointwise ops on a CPU process four elements at a time when channels are no multiple of four."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from random_graphs import build

from fourfold.backends import determine_facts, make_player
from fourfold.backends.cpu.reference import evaluate
from fourfold.codegen.context import KernelOptions
from fourfold.compiler.lower import make_plan
from fourfold.device import DeviceInfo

TOLERANCE = {"fp32": 1e-6, "mixed": 2e-3}
BY_ELEMENTS = {
    "one input": """
        input x: f32[1,4,5,3]
        y = tanh(x)
        output y
        """,
    "two inputs, a tail, more than one chunk": """
        input x: f32[2,8,47,5]
        input z: f32[2,8,47,5]
        y = mul(x, z) |> add(x) |> relu
        output y
        """,
    "whole numbers": """
        input x: f32[1,12,11,3]
        y = fake_quantize(x; scale=0.01, low=-127, high=128, step=1.0, pivot=-127)
        output y
        """,
}
BY_PIXELS = {
    "elements that fours do not fit into": """
        input x: f32[1,3,5,3]
        y = tanh(x)
        output y
        """,
    "a number for each channel": """
        input x: f32[1,4,5,3]
        input z: f32[1,1,1,3]
        y = mul(x, z)
        output y
        """,
    "a tail that is broadcast": """
        input x: f32[1,4,5,3]
        input z: f32[1,1,5,1]
        y = tanh(x) |> mul(z)
        output y
        """,
    "channels in fours": """
        input x: f32[1,4,5,8]
        y = tanh(x)
        output y
        """,
}


@pytest.mark.parametrize("precision", TOLERANCE)
@pytest.mark.parametrize("title", [*BY_ELEMENTS, *BY_PIXELS])
def test_results(title: str, precision: str, device: DeviceInfo) -> None:
    graph = build({**BY_ELEMENTS, **BY_PIXELS}[title])
    like = replace(device, kind="cpu")
    plan = make_plan(graph, like, KernelOptions(precision, form="list"))
    (launch,) = plan.launches
    fours = graph.types["y"].elements // 4
    sizes = [argument for argument in launch.arguments if isinstance(argument, int)]
    assert (fours in sizes) is (title in BY_ELEMENTS)
    random = np.random.default_rng(7)
    shapes = {name: graph.types[name].shape for name in graph.arguments}
    inputs = {name: random.uniform(-1, 1, shapes[name]).astype(np.float32) for name in shapes}
    (wanted,) = evaluate(graph, inputs).values()
    player = make_player(device, plan)
    player.poison()
    (result,) = player.run([inputs[name] for name in graph.arguments])
    player.close()
    assert np.abs(result - wanted).max() <= TOLERANCE[precision] * max(1.0, np.abs(wanted).max())


@pytest.mark.parametrize(("low", "pivot"), [(-128, None), (-127, -127), (0, 0)])
def test_rounding_to_bytes_alone(low: int, pivot: int | None, device: DeviceInfo) -> None:
    """A byte op reads the result, so that it is stored as bytes."""
    if not determine_facts(device, ["dot_products"]).packs_bytes:
        pytest.skip("no instructions that round sixteen numbers to bytes")
    graph = build(f"""
        input x: f32[1,12,11,3]
        q = fake_quantize(x; scale=0.01, low={low}, high={low + 255}, step=1.0, pivot={pivot})
        y = concat(q, q; axis=1)
        output y
        """)
    like = determine_facts(device, ["dot_products"])
    plan = make_plan(graph, like, KernelOptions("fp32", form="list"))
    x = np.random.default_rng(3).uniform(-1.5, 3, (1, 12, 11, 3)).astype(np.float32)
    x.flat[:5] = [0.005, 0.015, -0.005, 1e9, -1e9]
    player = make_player(device, plan)
    player.poison()
    (result,) = player.run([x])
    player.close()
    (wanted,) = evaluate(graph, {"x": x}).values()
    assert np.array_equal(result, wanted)
    assert any("fake_quantize_bytes" in launch.entry for launch in plan.launches)
