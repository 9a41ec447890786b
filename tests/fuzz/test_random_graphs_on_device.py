"""Random graphs on the device agree with the references."""

from __future__ import annotations

import numpy as np
import pytest
from random_graphs import Random

from fourfold.backends import make_player
from fourfold.backends.cpu.reference import evaluate
from fourfold.codegen.context import KernelOptions
from fourfold.compiler.lower import make_plan
from fourfold.compiler.rewrite import rewrite
from fourfold.device import DeviceInfo
from fourfold.graph import Graph

SEEDS = range(500, 512)


def inputs_of(graph: Graph, seed: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    types = {name: graph.types[name] for name in graph.inputs}
    return {n: np.asarray(random.uniform(-1, 1, t.shape), t.dtype.numpy) for n, t in types.items()}


def play(
    graph: Graph, inputs: dict[str, np.ndarray], device: DeviceInfo, options: KernelOptions
) -> list:
    player = make_player(device, make_plan(rewrite(graph, verify=True), device, options))
    player.poison()
    results = player.run([np.ascontiguousarray(inputs[name]) for name in graph.inputs])
    player.close()
    return results


@pytest.mark.parametrize("seed", SEEDS)
def test_random_graphs_agree_with_the_references(seed: int, device: DeviceInfo) -> None:
    graph = Random(seed).graph(size=10 + seed % 20)
    inputs = inputs_of(graph, seed)
    expected = evaluate(graph, inputs)
    for name, result in zip(
        graph.outputs, play(graph, inputs, device, KernelOptions()), strict=True
    ):
        expected_value = expected[name]
        if expected_value.dtype.kind == "f":
            finite = np.isfinite(expected_value)
            scale = max(1.0, float(np.abs(expected_value[finite]).max(initial=0)))
            assert np.abs(result[finite] - expected_value[finite]).max(initial=0) <= 1e-4 * scale, (
                name
            )
        else:
            np.testing.assert_array_equal(result, expected_value, err_msg=name)
