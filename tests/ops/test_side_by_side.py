"""Stages of one level are bit-equal in any order and with any assignment to groups."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from emulated_warps import POCL, emulated, with_matrix_units
from interpreted_devices import PLAIN
from random_graphs import Random, build
from side_by_side import as_list, cuts, in_some_order, level_by_level, share

from fourfold.backends import make_player
from fourfold.codegen.context import KernelOptions
from fourfold.codegen.stage import TABLE_ROWS
from fourfold.compiler.lower import make_plan
from fourfold.compiler.rewrite import rewrite
from fourfold.device import DeviceInfo
from fourfold.graph import Graph
from fourfold.plan import Plan

INTERPRETED = (PLAIN,)
BLOCKS = """
input x: f32[1,13,11,16]
const a: f32[8,1,1,16]
const b: f32[8,3,3,8]
const c: f32[32,1,1,8]
const d: f32[32,1,1,16]
const e: f32[1,3,3,32]
const f: f32[20,3,3,32]
const g: f32[7,1,1,32]
const h: f32[5,1,1,20]
const i: f32[6,1,1,57]
shortcut = conv2d(x, d)
one = conv2d(x, a) |> relu
two = conv2d(one, b; padding=Padding(1,1,1,1)) |> relu
three = conv2d(two, c) |> add(shortcut)
head = conv2d(three, g)
four = depthwise_conv2d(three, e; padding=Padding(1,1,1,1)) |> relu6
five = conv2d(four, f; stride=(2,2), padding=Padding(1,1,1,1))
other = conv2d(five, h) |> relu
pool = average_pool2d(three; filter=(2,2), stride=(2,2), padding=Padding(0,1,0,1))
joined = concat(five, other, pool; axis=3)
some = tanh(three)
more = max_pool2d(three; filter=(3,3), stride=(1,1), padding=Padding(1,1,1,1))
last = conv2d(joined, i)
output head, some, more, last
"""
# Emulated warps of a group must take the same path, so all have the same number of steps.
HEADS = """
input x: f32[1,7,5,64]
const a: f32[32,1,1,64]
const b: f32[64,1,1,32]
const c: f32[12,1,1,32]
const d: f32[7,1,1,64]
one = conv2d(x, a) |> relu
head = conv2d(one, b)
two = conv2d(one, c)
pool = max_pool2d(head; filter=(3,3), stride=(1,1), padding=Padding(1,1,1,1))
joined = concat(two, pool; axis=3)
three = conv2d(head, d)
output three, joined
"""


def inputs_of(graph: Graph, seed: int) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    types = [graph.types[name] for name in graph.inputs]
    return [np.asarray(random.uniform(-1, 1, t.shape), t.dtype.numpy) for t in types]


def facts(device: DeviceInfo, precision: str) -> tuple[DeviceInfo, Callable[[Plan], Plan]]:
    """Return the facts of a GPU whose groups share stages, adapted to this device."""
    if precision == "mixed":
        fit = _as_it_is if device.language == "tree" else emulated
        return replace(with_matrix_units(device), resident=True), fit
    like = replace(device, kind="gpu", compute_units=5, max_work_group=256, dot_products="")
    return replace(like, resident=True), _as_it_is


def _as_it_is(plan: Plan) -> Plan:
    return plan


def takes_plans_of_others(device: DeviceInfo) -> None:
    if not device.is_cpu and device.api != "interpret":
        pytest.skip("kernels are written for another GPU")


def check_orders(graph: Graph, device: DeviceInfo, precision: str, orders: int) -> None:
    like, fit = facts(device, precision)
    listed = make_plan(graph, like, KernelOptions(precision, form="list"))
    shared, generator = share(graph, like, KernelOptions(precision)), np.random.default_rng(5)
    wanted, found = make_player(device, fit(listed)), set()
    for seed in range(orders):
        order = in_some_order(shared, generator)
        found.add(tuple(order))
        player = make_player(device, fit(as_list(shared, listed, order)))
        player.poison()
        arrays = inputs_of(graph, seed)
        wanted.poison()
        for one, other in zip(player.run(arrays), wanted.run(arrays), strict=True):
            assert not np.isnan(one).any()
            np.testing.assert_array_equal(one, other)
        player.close()
    assert len(found) > 1
    wanted.close()


@pytest.mark.parametrize(
    ("text", "precision", "orders"), [(BLOCKS, "fp32", 6), (HEADS, "mixed", 3)]
)
def test_results_do_not_depend_on_stage_order(
    device: DeviceInfo, text: str, precision: str, orders: int
) -> None:
    takes_plans_of_others(device)
    if precision == "mixed" and device.platform == POCL and device.driver.startswith("3.0"):
        pytest.skip("PoCL 3.0 gives other results here; Intel's runtime does not")
    check_orders(rewrite(build(text), verify=True), device, precision, orders)


@pytest.mark.parametrize("seed", range(720, 726))
def test_any_order_of_random_graphs(device: DeviceInfo, seed: int) -> None:
    takes_plans_of_others(device)
    check_orders(rewrite(Random(seed).graph(size=14), verify=True), device, "fp32", 3)


def test_groups_share_every_level(device: DeviceInfo) -> None:
    """Run a GPU's text and table with one launch per level.

    There is no local memory except for the table, because neighboring groups would meet at
    different barriers.
    """
    takes_plans_of_others(device)
    graph = rewrite(build(BLOCKS.replace("13,11", "29,23")), verify=True)
    like = replace(facts(device, "fp32")[0], local_memory=TABLE_ROWS)
    shared = share(graph, like, KernelOptions())
    assert len(shared.barriers) < len(shared.stages) - 3
    assert any(not stage.arrives and not stage.awaits for stage in shared.stages)
    assert max(wait - start for start, wait in pairwise(cuts(shared))) > 2
    listed = make_player(device, make_plan(graph, like, KernelOptions(form="list")))
    interpreted = device.language == "tree"
    player = make_player(device, shared.plan if interpreted else level_by_level(shared))
    for seed in range(5):
        player.poison()
        arrays = inputs_of(graph, seed)
        for one, other in zip(player.run(arrays), listed.run(arrays), strict=True):
            assert not np.isnan(one).any()
            np.testing.assert_array_equal(one, other)
    player.close()
    listed.close()
