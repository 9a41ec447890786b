"""Products of weights and a few vectors with rows of work-items, as on GPUs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from interpreted_devices import KHR, PLAIN
from random_graphs import build

from fourfold.backends import make_player
from fourfold.backends.cpu.reference import evaluate
from fourfold.codegen.context import KernelOptions
from fourfold.compiler.lower import make_plan
from fourfold.device import DeviceInfo

INTERPRETED = (PLAIN, KHR)
GRAPHS = {
    "one vector, whole steps": """
        input x: f32[1,256]
        const w: f32[16,256]
        const b: f32[16]
        y = fully_connected(x, w, b) |> relu
        output y
        """,
    "prime sizes": """
        input x: f32[3,263]
        const w: f32[11,263]
        y = fully_connected(x, w)
        output y
        """,
    "whole slices, and not all steps": """
        input x: f32[1,576]
        const w: f32[13,576]
        y = fully_connected(x, w)
        output y
        """,
    "several rounds": """
        input x: f32[1,1,1,4801]
        const w: f32[7,1,1,4801]
        const b: f32[7]
        const r: f32[1,1,1,7]
        y = conv2d(x, w, b) |> add(r) |> relu6
        output y
        """,
}


@pytest.mark.parametrize("precision", ["fp32", "mixed"])
@pytest.mark.parametrize("title", GRAPHS)
def test_rows_match_the_reference(title: str, precision: str, device: DeviceInfo) -> None:
    graph = build(GRAPHS[title])
    large = replace(device, kind="gpu", max_work_group=1024, compute_units=64)
    plan = make_plan(graph, large, KernelOptions(precision, form="list"))
    assert [launch.entry.rpartition("_")[0].endswith("_rows") for launch in plan.launches] == [True]
    player = make_player(device, plan)
    player.poison()
    x = np.random.default_rng(5).uniform(-1, 1, plan.inputs[0].type.shape).astype(np.float32)
    (wanted,) = evaluate(graph, {graph.arguments[0]: x}).values()
    (result,) = player.run([x])
    tolerance = 1e-5 if precision == "fp32" else 1e-2
    assert np.abs(result - wanted).max() <= tolerance * max(1.0, np.abs(wanted).max())
    player.close()
