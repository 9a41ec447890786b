"""Graphs for kernels that multiply fp16 values, with inputs and expected results."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from fake_devices import target_of
from random_graphs import build

from fourfold.backends.cpu.reference import evaluate
from fourfold.codegen.context import KernelOptions, NodeContext
from fourfold.compiler.lower import specialise
from fourfold.compiler.lower.kernels import node_contexts
from fourfold.compiler.lower.locations import choose_locations
from fourfold.device import DeviceInfo
from fourfold.graph import Graph

# Convolutions that read the result of another in fp16 slices.
GRAPHS = {
    "one tap": """
        input x: f32[1,9,23,16]
        const v: f32[64,1,1,16]
        const w: f32[40,1,1,64]
        const b: f32[40]
        m = conv2d(x, v)
        y = conv2d(m, w, b) |> relu
        output y
        """,
    "a window, more pixels than a group": """
        input x: f32[2,7,11,16]
        const v: f32[32,1,1,16]
        const w: f32[136,3,3,32]
        const r: f32[2,7,11,136]
        m = conv2d(x, v)
        y = conv2d(m, w; padding=Padding(1,1,1,1)) |> add(r)
        output y
        """,
    "steps and gaps": """
        input x: f32[1,13,12,16]
        const v: f32[192,1,1,16]
        const w: f32[8,3,2,192]
        m = conv2d(x, v)
        y = conv2d(m, w; stride=(2,1), dilation=(2,3), padding=Padding(2,1,0,3))
        output y
        """,
    "few batches": """
        input x: f32[1,3,5,16]
        const v: f32[32,1,1,16]
        const w: f32[13,1,1,32]
        m = conv2d(x, v)
        y = conv2d(m, w)
        output y
        """,
}


def in_halves(text: str) -> Graph:
    """Return a graph whose weights are exact in fp16."""
    graph = build(text)
    halves = {n: a.astype(np.float16).astype(np.float32) for n, a in graph.constants.items()}
    return replace(graph, constants=halves)


def contexts_of(graph: Graph, device: DeviceInfo, options: KernelOptions) -> list[NodeContext]:
    """Return the kernel contexts of its nodes, in order."""
    target = specialise.specialise_target(graph, target_of(device, options))
    return [*node_contexts(graph, choose_locations(graph, target.options), target)]


def numbers(graph: Graph) -> dict[str, np.ndarray]:
    random = np.random.default_rng(5)
    return {
        name: random.uniform(-1, 1, graph.types[name].shape).astype(np.float32)
        for name in graph.inputs
    }


def compare(result: np.ndarray, graph: Graph, given: dict[str, np.ndarray]) -> None:
    """Compare an fp16 result with the reference."""
    expected = evaluate(graph, given)["y"]
    assert not np.isnan(result).any()
    np.testing.assert_allclose(result, expected, atol=4e-3 * np.abs(expected).max())
