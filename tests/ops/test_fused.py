"""Fused graphs give the results of their parts, and one launch is bit-equal to a list of
launches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

import numpy as np
import pytest
from half_precision import skip_without_halves
from interpreted_devices import RESIDENT
from random_graphs import build

from fourfold.backends import make_player
from fourfold.backends.cpu.reference import evaluate
from fourfold.codegen.context import KernelOptions
from fourfold.compiler.lower import make_plan
from fourfold.compiler.rewrite import rewrite
from fourfold.compiler.tune.search import Known, searches
from fourfold.device import DeviceInfo
from fourfold.graph import Graph
from fourfold.ops.kernels.conv.padded import PaddedInput

INTERPRETED = (RESIDENT,)
TOLERANCE = {"fp32": 2e-5, "mixed": 6e-3, "fp16": 3e-2}

CELL = """
input x: f32[3,11]
input c: f32[3,13]
const w: f32[52,11]
const one: f32[] = 1
t = fully_connected(x, w)
i = slice(t; begin=(0, 0), size=(3, 13), strides=(1, 1))
g = slice(t; begin=(0, 13), size=(3, 13), strides=(1, 1))
f = slice(t; begin=(0, 26), size=(3, 13), strides=(1, 1))
o = slice(t; begin=(0, 39), size=(3, 13), strides=(1, 1))
i1 = logistic(i)
g1 = tanh(g)
f1 = logistic(f)
o1 = logistic(o)
a = mul(f1, c)
b = mul(i1, g1)
d = add(a, b)
e = minimum(d, one)
k = tanh(e)
h = mul(k, o1)
output h, e
"""
NORMALISED = """
input x: f32[2,13,11,7]
const w: f32[5,3,3,7]
const scale: f32[5]
const shift: f32[5]
const tiny: f32[] = 0.001
v = conv2d(x, w)
m = mean(v; axes=(1, 2), keep_dims=True)
d = squared_difference(v, m)
q = mean(d; axes=(1, 2), keep_dims=True)
r = add(q, tiny)
s = rsqrt(r)
a = mul(s, scale)
b = mul(m, a)
o = sub(shift, b)
z = mul(v, a)
y = add(z, o)
output y
"""
WIDENED = """
input x: f32[2,13,11,11]
const w: f32[1,3,3,11]
const p: f32[29,1,1,11]
const slope: f32[29]
a = depthwise_conv2d(x, w; padding=Padding(1,1,1,1))
b = conv2d(a, p)
c = pad(x; before=(0, 0, 0, 0), after=(0, 0, 0, 18))
d = add(b, c)
y = prelu(d, slope)
output y
"""
SQUEEZED = """
input x: f32[2,7,5,13]
const w: f32[3,1,1,13]
const b: f32[3]
const v: f32[13,1,1,3]
const c: f32[13]
const three: f32[] = 3
const sixth: f32[] = 0.16666667
m = average_pool2d(x; filter=(7,5), stride=(1,1))
a = conv2d(m, w, b)
r = relu(a)
e = conv2d(r, v, c)
f = add(e, three)
g = relu6(f)
h = mul(g, sixth)
y = mul(x, h)
output y
"""
CLASSIFIED = """
input x: f32[2,5,3,29]
const w: f32[11,29]
const b: f32[11]
const slope: f32[11]
const v: f32[7,11]
m = mean(x; axes=(1,2), keep_dims=False)
a = fully_connected(m, w, b)
p = prelu(a, slope)
k = fully_connected(p, v)
l = tanh(k)
s = softmax(l; beta=2.0)
y = sqrt(s)
output y
"""
SWISHED = """
input x: f32[1,13,11,7]
const w: f32[29,3,3,7]
const v: f32[5,1,1,29]
a = conv2d(x, w; padding=Padding(1,1,1,1))
b = logistic(a)
c = mul(a, b)
d = conv2d(c, v)
e = tanh(d)
f = exp(d)
g = sub(f, e)
y = mul(g, d)
output y
"""
NETWORKS = {
    "cell": (CELL, 3),
    "normalised": (NORMALISED, 4),
    "widened": (WIDENED, 2),
    "swished": (SWISHED, 2),
}
CHAINS = {"squeezed": (SQUEEZED, 2, 4), "classified": (CLASSIFIED, 1, 4)}
BEYOND_HALVES = ("swished",)
NETWORKS |= {name: (text, kernels) for name, (text, kernels, _) in CHAINS.items()}


def play(
    graph: Graph,
    device: DeviceInfo,
    options: KernelOptions,
    seed: int,
    choices: Mapping[str, str] | None = None,
) -> list[np.ndarray]:
    plan = make_plan(rewrite(graph, verify=True), device, options, choices)
    player = make_player(device, plan)
    results = []
    for arrays in (inputs_of(graph, seed), inputs_of(graph, seed + 1)):
        player.poison()
        results += player.run(list(arrays.values()))
    player.close()
    return results


def inputs_of(graph: Graph, seed: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    shapes = {name: graph.types[name].shape for name in graph.inputs}
    return {name: random.uniform(-1, 1, shape).astype("f4") for name, shape in shapes.items()}


def compare(graph: Graph, results: list[np.ndarray], precision: str, seed: int) -> None:
    """Compare the results of two runs with the references of the original graph."""
    seeds = (seed, seed + 1)
    wanted = [array for n in seeds for array in evaluate(graph, inputs_of(graph, n)).values()]
    for result, array in zip(results, wanted, strict=True):
        assert not np.isnan(result).any()
        limit = TOLERANCE[precision] * max(1.0, float(np.abs(array).max()))
        assert np.abs(result - array).max() <= limit


@pytest.mark.parametrize("precision", TOLERANCE)
@pytest.mark.parametrize("name", NETWORKS)
def test_a_network(name: str, precision: str, device: DeviceInfo) -> None:
    text, kernels = NETWORKS[name]
    skip_without_halves(device, precision)
    graph, options = build(text), KernelOptions(precision, form="list")
    launches = make_plan(rewrite(graph), device, options).launches
    # Not checked: on a CPU that computes in fp16, a convolution may copy its input first.
    entries = [one.entry for one in launches if not one.entry.startswith(PaddedInput.title)]
    assert len(entries) == kernels
    if precision == "fp16" and name in BEYOND_HALVES:
        return  # fp16 cannot hold the results
    results = play(graph, device, options, seed=5)
    compare(graph, results, precision, seed=5)
    if device.is_cpu or device.resident:
        again = play(graph, device, KernelOptions(precision, form="one"), seed=5)
        for result, array in zip(again, results, strict=True):
            np.testing.assert_array_equal(result, array)


@pytest.mark.parametrize("precision", TOLERANCE)
@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_in_all_its_forms(name: str, precision: str, device: DeviceInfo) -> None:
    text, fewest, most = CHAINS[name]
    skip_without_halves(device, precision)
    graph, options = build(text), KernelOptions(precision, form="list")
    known = Known({}, {})
    (search,) = (
        search
        for search in searches(rewrite(graph), device, options, known, limit=100)
        if search.title.startswith("joined")
    )
    kernels = set()
    for way in search.candidates:
        choices = {search.key: str(way)}
        kernels.add(len(make_plan(rewrite(graph), device, options, choices).launches))
        compare(graph, play(graph, device, options, 7, choices), precision, seed=7)
    assert (min(kernels), max(kernels)) == (fewest, most)


@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_as_a_work_group(name: str, device: DeviceInfo) -> None:
    """On a CPU, a group of many work-items is slow but correct."""
    graph = build(CHAINS[name][0])
    like = replace(device, kind="gpu", compute_units=8)
    plan = make_plan(rewrite(graph), like, KernelOptions(form="list"))
    assert any(prod(launch.local) > 1 for launch in plan.launches if launch.title == "chain")
    player = make_player(device, plan)
    results = [a for n in (3, 4) for a in player.run(list(inputs_of(graph, n).values()))]
    player.close()
    compare(graph, results, "fp32", seed=3)
