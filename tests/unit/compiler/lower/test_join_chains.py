"""join_chains: a mean, small products and a softmax become one node."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fake_devices import target_of
from random_graphs import assert_equal, build

from fourfold.backends.null import NULL_GPU
from fourfold.codegen.context import KernelOptions
from fourfold.compiler.lower.join_nodes import join_chains
from fourfold.compiler.rewrite.check_graph import check
from fourfold.device import DeviceInfo
from fourfold.graph import Graph
from fourfold.ops.kernels.joined import Joined

CPU = replace(NULL_GPU, kind="cpu", compute_units=2)
GPU = replace(NULL_GPU, compute_units=132, resident=True)
HEAD = """
input x: f32[2,7,5,13]
input z: f32[2,1,1,3]
const w: f32[3,1,1,13]
const b: f32[3]
const v: f32[13,1,1,3]
const u: f32[13,13]
const big: f32[2003,1,1,13]
const back: f32[13,2003]
"""
MEAN = "m = mean(x; axes=(1, 2), keep_dims=True)"
FIRST = "a = conv2d(m, w, b) |> relu"
SECOND = "y = conv2d(a, v) |> logistic"
JOINS = {
    "squeeze and excite": ((MEAN, FIRST, SECOND), ("mean", "conv2d", "conv2d")),
    "a head": (
        (MEAN, "r = reshape(m; shape=(2, 13))", "k = fully_connected(r, u)", "y = softmax(k)"),
        ("mean", "reshape", "fully_connected", "softmax"),
    ),
    "numbers by channel inside": (
        (MEAN, "a = conv2d(m, w) |> prelu(b)", SECOND),
        ("mean", "conv2d", "conv2d"),
    ),
    "as far as one reads the other": (
        (MEAN, FIRST, "o = conv2d(a, v)", "k = exp(o)", "y = conv2d(k, w) |> add(a)"),
        ("mean", "conv2d"),
    ),
    "as far as tails read constants": (
        (MEAN, "a = conv2d(m, w) |> add(z)", "k = softmax(a)", "y = exp(k)"),
        ("mean", "conv2d"),
    ),
    "what is read twice comes first": (
        ("a = conv2d(z, w2)", "k = conv2d(a, w) |> relu", "l = conv2d(k, v)", "y = add(l, a)"),
        ("conv2d", "conv2d"),
    ),
}
STAYS = {
    "one kernel": (MEAN, "y = relu(m)"),
    "a mean over one axis": ("m = mean(x; axes=(2,), keep_dims=True)", "y = conv2d(m, w)"),
    "large pictures": ("a = conv2d(x, w)", "y = conv2d(a, v)"),
}


def joins(
    graph: Graph, device: DeviceInfo, options: KernelOptions | None = None
) -> list[list[str]]:
    after = join_chains(graph, target_of(device, options))
    check(after)
    assert_equal(graph, after)
    result = [node.attributes for node in after.nodes if isinstance(node.attributes, Joined)]
    return [[part.op for part in item.parts] for item in result]


@pytest.mark.parametrize("unit", [CPU, GPU], ids=["cpu", "gpu"])
@pytest.mark.parametrize("name", JOINS)
def test_joining(name: str, unit: DeviceInfo) -> None:
    lines, ops = JOINS[name]
    graph = build("\n".join([HEAD, "const w2: f32[13,1,1,3]", *lines, "output y"]))
    assert joins(graph, unit) == [list(ops)]


@pytest.mark.parametrize("name", STAYS)
def test_nodes_that_stay_separate(name: str) -> None:
    graph = build("\n".join([HEAD, *STAYS[name], "output y"]))
    assert joins(graph, CPU) == []


def test_an_output_in_the_middle_is_stored() -> None:
    graph = build(f"{HEAD}\n{MEAN}\n{FIRST}\n{SECOND}\noutput a, y")
    assert joins(graph, CPU) == [["mean", "conv2d"]]


def test_a_heavy_part_ends_a_chain() -> None:
    lines = (MEAN, FIRST, "k = conv2d(a, v)", "l = conv2d(k, big)", "y = fully_connected(l, back)")
    graph = build("\n".join([HEAD, *lines, "output y"]))
    assert joins(graph, CPU) == [["mean", "conv2d", "conv2d"]]


def test_byte_products_stay_separate() -> None:
    graph = build(f"{HEAD}\n{MEAN}\n{FIRST}\n{SECOND}\noutput y")
    assert joins(graph, CPU, KernelOptions(counts_bytes=True)) == []


@pytest.mark.parametrize("unit", [CPU, GPU], ids=["cpu", "gpu"])
def test_chain_without_pixels(unit: DeviceInfo) -> None:
    lines = ("input e: f32[0,13]", "k = fully_connected(e, u)", "y = softmax(k)", "output y")
    assert joins(build("\n".join([HEAD, *lines])), unit) == [["fully_connected", "softmax"]]
