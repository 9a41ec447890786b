"""Several runs in flight, each with its own memory, finish in order with the results of `run`."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

import numpy as np
import pytest
from random_graphs import build
from small_networks import small_network

from fourfold.backends import Player, make_player
from fourfold.codegen.context import KernelOptions
from fourfold.compiler.lower import make_plan
from fourfold.compiler.rewrite import rewrite
from fourfold.device import DeviceInfo

# Other kinds of drivers: memory is mapped and unmapped, or copied next to the launches.
WAYS = {
    "own": {},
    "handed to and fro": {"kind": "gpu", "unified_memory": True},
    "pinned": {"kind": "gpu", "unified_memory": False, "probed": ("self_test",)},
    "plain": {"kind": "gpu", "unified_memory": False, "probed": ()},
}
SAME = "input x: f32[3,5]\ny = relu(x)\noutput x, y\n"


def player_of(graph: object, device: DeviceInfo, form: str, way: str) -> Player:
    plan = make_plan(rewrite(graph), device, KernelOptions(form=form))
    player = make_player(device, plan)
    player.info = replace(device, **WAYS[way])  # as its slots see it
    return player


def inputs_of(player: Player, seed: int) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    types = [port.type for port in player.plan.inputs]
    return [np.asarray(random.uniform(-1, 1, t.shape), t.dtype.numpy) for t in types]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("form", ["list", "one"])
def test_runs_in_flight(device: DeviceInfo, form: str, way: str) -> None:
    player = player_of(small_network(), device, form, way)
    slots, waiting, seen = deque(player.open_slot() for _ in range(3)), deque(), set()
    for seed in range(60):
        arrays = inputs_of(player, seed)
        expected = player.run(arrays)
        slot = slots.popleft()
        slot.begin(arrays)
        for array in arrays:
            array.fill(np.nan)  # a slot has its own copy
        waiting.append((slot, expected))
        if len(waiting) == 3:
            slot, expected = waiting.popleft()
            for result, one in zip(slot.end(spin=seed % 2 == 0), expected, strict=True):
                np.testing.assert_array_equal(result, one)
                seen.add(result.tobytes())
            assert slot.done
            slots.append(slot)
    assert len(seen) == 2 * 58
    for slot, _ in waiting:
        slot.close()
    player.close()


@pytest.mark.parametrize("way", WAYS)
def test_a_run_uses_the_inputs_of_its_slot(device: DeviceInfo, way: str) -> None:
    player = player_of(small_network(), device, "auto", way)
    slot = player.open_slot(staged=False)
    for seed in range(3):
        (x,) = inputs_of(player, seed)
        slot.inputs[0][...] = x
        slot.begin([None])
        for result, expected in zip(slot.end(), player.run([x]), strict=True):
            np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("way", WAYS)
def test_an_input_that_is_an_output(device: DeviceInfo, way: str) -> None:
    player = player_of(build(SAME), device, "list", way)
    slot = player.open_slot()
    (x,) = inputs_of(player, 5)
    slot.begin([x])
    same, y = slot.end()
    np.testing.assert_array_equal(same, x)
    np.testing.assert_array_equal(y, np.maximum(x, 0))


def test_arrays_of_a_slot_outlive_it(device: DeviceInfo) -> None:
    player = player_of(small_network(), device, "auto", "own")
    slot = player.open_slot()
    array = slot.inputs[0]
    slot.close()
    player.close()
    del slot, player
    array[...] = 7
    assert (array == 7).all()
