"""Depthwise layers with every number of rows against the reference, as a list and as one launch."""

from __future__ import annotations

import numpy as np
import pytest
from fake_devices import target_of
from half_precision import skip_without_halves
from interpreted_devices import RESIDENT
from op_trials import TOLERANCE
from random_graphs import build

from fourfold.backends import Player, make_player
from fourfold.backends.cpu.reference import evaluate
from fourfold.codegen.context import KernelOptions
from fourfold.compiler.lower import make_plan
from fourfold.compiler.lower.kernels import node_contexts
from fourfold.compiler.lower.locations import choose_locations
from fourfold.compiler.lower.specialise import specialise_target
from fourfold.compiler.rewrite import rewrite
from fourfold.device import DeviceInfo
from fourfold.graph import Graph

INTERPRETED = (RESIDENT,)  # for fp16, which not every device computes
# No edge, one on a side, on both, many; missing rows above and below; images too narrow for two
# columns; strides and dilation; channels that are a multiple of four and others; a residual that
# the tail reads.
NETWORK = """
input x: f32[2,13,17,8]
const w0: f32[1,3,3,8]
const b0: f32[8]
const w1: f32[1,3,3,8]
const w2: f32[1,5,5,8]
const w3: f32[1,3,3,8]
const w4: f32[1,3,2,8]
const v: f32[13,1,1,8]
const w5: f32[1,3,3,13]
const w6: f32[1,3,3,13]
a = depthwise_conv2d(x, w0, b0; padding=Padding(1,1,1,1)) |> relu6
b = depthwise_conv2d(a, w1; stride=(2,2), padding=Padding(0,1,0,1)) |> relu
c = depthwise_conv2d(a, w2; padding=Padding(2,2,2,2)) |> add(a)
d = depthwise_conv2d(c, w3; dilation=(2,3), padding=Padding(2,2,3,3))
e = depthwise_conv2d(d, w4; stride=(3,2))
f = conv2d(b, v)
g = depthwise_conv2d(f, w5; padding=Padding(1,1,1,1))
h = depthwise_conv2d(g, w6; stride=(2,5), padding=Padding(1,0,1,2))
output c, d, e, g, h
"""


def plays(graph: Graph, device: DeviceInfo, options: KernelOptions, rows: int) -> Player:
    """Return a player whose depthwise layers compute `rows` rows at once, if they have them."""
    target = specialise_target(graph, target_of(device, options))
    every = node_contexts(graph, choose_locations(graph, target.options), target)
    ways = {s.key: f"rows: {rows} rows" for s in every if s.node.op == "depthwise_conv2d"}
    return make_player(device, make_plan(graph, device, options, ways))


@pytest.mark.devices(takes=lambda device: device.api != "interpret")
@pytest.mark.parametrize("precision", ["fp32", "mixed"])
@pytest.mark.parametrize("rows", range(1, 9))
def test_every_number_of_rows(rows: int, precision: str, device: DeviceInfo) -> None:
    check(rows, precision, device)


@pytest.mark.parametrize("rows", [1, 5, 8])
def test_rows_in_fp16(rows: int, device: DeviceInfo) -> None:
    skip_without_halves(device)
    check(rows, "fp16", device)


def check(rows: int, precision: str, device: DeviceInfo) -> None:
    graph = rewrite(build(NETWORK), verify=True)
    x = np.random.default_rng(rows).uniform(-1, 1, (2, 13, 17, 8)).astype(np.float32)
    wanted = evaluate(graph, {"x": x})
    found = []
    for form in ("list", "one"):
        player = plays(graph, device, KernelOptions(precision, form=form), rows)
        player.poison()
        found.append(player.run([x]))
        player.close()
    for name, listed, joined in zip(graph.outputs, *found, strict=True):
        np.testing.assert_array_equal(listed, joined)
        limit = TOLERANCE[precision] * max(1.0, float(np.abs(wanted[name]).max()))
        np.testing.assert_allclose(listed, wanted[name], rtol=0, atol=limit)
