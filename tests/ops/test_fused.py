"""What passes and plans join gives what its parts give, as launches and bit-equal as one launch."""

from __future__ import annotations

import numpy as np
import pytest
from random_graphs import build

from fourfold.cpu.reference import evaluate
from fourfold.device import DeviceInfo
from fourfold.graph import Graph
from fourfold.kernel.site import Options
from fourfold.lower import make_plan
from fourfold.players import opencl
from fourfold.rewrite import rewrite

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
NETWORKS = {"cell": (CELL, 3), "normalised": (NORMALISED, 4), "widened": (WIDENED, 2)}


def precision_of(device: DeviceInfo, precision: str) -> str:
    if precision == "fp16" and not opencl.has_half_arithmetic(device):
        pytest.skip(f"{device.name} does not compute in half precision")
    return precision


def play(graph: Graph, device: DeviceInfo, options: Options, seed: int) -> list[np.ndarray]:
    player = opencl.Player(device, make_plan(rewrite(graph, verify=True), device, options))
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


@pytest.mark.parametrize("precision", TOLERANCE)
@pytest.mark.parametrize("name", NETWORKS)
def test_a_network(name: str, precision: str, device: DeviceInfo) -> None:
    text, kernels = NETWORKS[name]
    graph, options = build(text), Options(precision_of(device, precision), form="list")
    assert len(make_plan(rewrite(graph), device, options).launches) == kernels
    results = play(graph, device, options, seed=5)
    wanted = [
        array for seed in (5, 6) for array in evaluate(graph, inputs_of(graph, seed)).values()
    ]
    for result, array in zip(results, wanted, strict=True):
        assert not np.isnan(result).any()
        limit = TOLERANCE[precision] * max(1.0, float(np.abs(array).max()))
        assert np.abs(result - array).max() <= limit
    if device.is_cpu or device.resident:
        again = play(graph, device, Options(precision, form="one"), seed=5)
        for result, array in zip(again, results, strict=True):
            np.testing.assert_array_equal(result, array)
