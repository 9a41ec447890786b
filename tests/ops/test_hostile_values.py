"""Kernels survive any input value on a real driver, and treat indices as the reference does."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hostile_values import ADDRESSED, hostile_trial

from fourfold.backends import make_player
from fourfold.codegen.context import KernelOptions
from fourfold.compiler.lower import make_plan
from fourfold.compiler.rewrite import rewrite
from fourfold.device import DeviceInfo
from fourfold.graph import NONE, Graph, Node
from fourfold.ops.base import registry
from fourfold.types import DType, TensorType

RUNS = 25
DIVISIONS = ("div", "floor_div", "floor_mod", "remainder")


@pytest.mark.parametrize("name", ADDRESSED)
def test_kernels_survive_hostile_values(name: str, device: DeviceInfo) -> None:
    op, options = registry()[name], KernelOptions(form="list")
    graph = rewrite(hostile_trial(op, 0).graph, verify=True)
    player = make_player(device, make_plan(graph, device, options))
    for seed in range(RUNS):
        only_indices = op.indices is not None and seed % 2 == 0
        item = hostile_trial(op, seed, only_indices)
        player.poison()
        results = player.run([np.ascontiguousarray(array) for array in item.inputs])
        if only_indices:
            item.check(results, 2e-5)
    player.close()


@pytest.mark.parametrize(("name", "by_channel"), [*product(DIVISIONS, (False, True))])
def test_integer_divisions_never_trap(name: str, by_channel: bool, device: DeviceInfo) -> None:
    """Zero divisors, and the smallest integer by -1, would end the process on a CPU."""
    smallest = np.iinfo(np.int32).min
    a = np.int32([[smallest, smallest, 7, -7, 7, smallest, 0]])
    b = np.int32([[-1, 0, 0, -1, 2, smallest, -1]])
    b = b if by_channel else np.ascontiguousarray(np.broadcast_to(b, (3, 7)))
    types = {"a": TensorType.of(a), "b": TensorType.of(b), "y": TensorType(DType.I32, b.shape)}
    graph = Graph((Node(name, ("a", "b"), ("y",), NONE),), ("a", "b"), ("y",), types)
    player = make_player(device, make_plan(rewrite(graph), device, KernelOptions(form="list")))
    (result,) = player.run([a, b])
    player.close()
    with np.errstate(all="ignore"):
        expected = np.asarray(registry()[name].reference(NONE, a, b))
    assert np.array_equal(result[b != 0], np.broadcast_to(expected, b.shape)[b != 0])
