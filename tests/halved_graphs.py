"""Graphs for kernels that multiply halves: their numbers, and what comes of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from fake_devices import target_of
from random_graphs import build

from fourfold.cpu.reference import evaluate
from fourfold.device import DeviceInfo
from fourfold.graph import Graph
from fourfold.kernel.context import KernelOptions, NodeContext
from fourfold.lower import specialise
from fourfold.lower.kernels import node_contexts
from fourfold.lower.locations import choose_locations


def in_halves(text: str) -> Graph:
    """A graph with weights that lose nothing as halves."""
    graph = build(text)
    halves = {n: a.astype(np.float16).astype(np.float32) for n, a in graph.constants.items()}
    return replace(graph, constants=halves)


def contexts_of(graph: Graph, device: DeviceInfo, options: KernelOptions) -> list[NodeContext]:
    """What the kernels of its nodes are told, in order."""
    target = specialise.specialise_target(graph, target_of(device, options))
    return [*node_contexts(graph, choose_locations(graph, target.options), target)]


def numbers(graph: Graph) -> dict[str, np.ndarray]:
    random = np.random.default_rng(5)
    return {
        name: random.uniform(-1, 1, graph.types[name].shape).astype(np.float32)
        for name in graph.inputs
    }


def compare(result: np.ndarray, graph: Graph, given: dict[str, np.ndarray]) -> None:
    """A result of halves with that of the reference."""
    wanted = evaluate(graph, given)["y"]
    assert not np.isnan(result).any()
    np.testing.assert_allclose(result, wanted, atol=4e-3 * np.abs(wanted).max())
