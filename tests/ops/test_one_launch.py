"""A plan as one launch is bit-equal to separate launches, run after run."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from random_graphs import Random, build

from fourfold.backends import Player, make_player
from fourfold.backends.chunked_copy import ChunkedCopy
from fourfold.codegen.c_style.sharing import ENTRY
from fourfold.codegen.context import KernelOptions
from fourfold.compiler.lower import make_plan
from fourfold.compiler.rewrite import rewrite
from fourfold.device import DeviceInfo
from fourfold.graph import Graph

NETWORK = """
input x: f32[1,23,19,3]
const w0: f32[16,3,3,3]
const w1: f32[1,3,3,16]
const w2: f32[24,1,1,16]
const w3: f32[24,1,1,24]
const w4: f32[7,24]
a = conv2d(x, w0; stride=(2,2), padding=Padding(1,1,1,1)) |> relu6
b = depthwise_conv2d(a, w1; padding=Padding(1,1,1,1)) |> relu6
c = conv2d(b, w2) |> relu
d = conv2d(c, w3) |> add(c)
e = mean(d; axes=(1,2), keep_dims=True)
f = reshape(e; shape=(1,24))
g = fully_connected(f, w4)
h = softmax(g)
output h
"""


# Shortcuts, heads and parts of joined values, some of which are read late, and two inputs.
BRANCHES = """
input x: f32[1,41,37,16]
input z: f32[1,41,37,8]
const a: f32[8,1,1,16]
const b: f32[8,3,3,8]
const c: f32[32,1,1,8]
const d: f32[32,1,1,16]
const e: f32[20,3,3,32]
const f: f32[7,1,1,32]
const g: f32[5,1,1,20]
const h: f32[6,1,1,57]
shortcut = conv2d(x, d)
one = conv2d(x, a) |> add(z) |> relu
two = conv2d(one, b; padding=Padding(1,1,1,1)) |> relu
three = conv2d(two, c) |> add(shortcut)
head = conv2d(three, f)
five = conv2d(three, e; stride=(2,2), padding=Padding(1,1,1,1))
other = conv2d(five, g) |> relu
pool = average_pool2d(three; filter=(2,2), stride=(2,2), padding=Padding(0,1,0,1))
joined = concat(five, other, pool; axis=3)
some = tanh(z)
more = max_pool2d(three; filter=(3,3), stride=(1,1), padding=Padding(1,1,1,1))
last = conv2d(joined, h)
mean = mean(more; axes=(1,2), keep_dims=True)
output head, some, mean, last
"""


def players(graph: Graph, device: DeviceInfo, precision: str) -> tuple[Player, Player]:
    made = []
    for form in ("list", "one"):
        plan = make_plan(rewrite(graph, verify=True), device, KernelOptions(precision, form=form))
        made.append(make_player(device, plan))
    return made[0], made[1]


def inputs_of(graph: Graph, seed: int) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    types = [graph.types[name] for name in graph.inputs]
    return [np.asarray(random.uniform(-1, 1, t.shape), t.dtype.numpy) for t in types]


def joins(device: DeviceInfo) -> None:
    if not device.is_cpu and not device.resident:
        pytest.skip("this device does not guarantee that groups can wait for each other")


@pytest.mark.parametrize("precision", ["fp32", "mixed"])
def test_changing_inputs_with_poisoned_memory(device: DeviceInfo, precision: str) -> None:
    joins(device)
    graph = build(NETWORK)
    listed, joined = players(graph, device, precision)
    assert [launch.entry for launch in joined.plan.launches] == [ENTRY]
    kernels = 4 if device.matrix_units and precision == "mixed" else 5  # two layers are fused
    assert len(listed.plan.launches) == kernels
    # plus a stage that fetches the input
    assert joined.plan.stages == kernels + device.reaches_host
    seen = set()
    for seed in range(300):
        arrays = inputs_of(graph, seed % 11)
        listed.poison()
        joined.poison()
        expected, result = listed.run(arrays)[0], joined.run(arrays)[0]
        assert not np.isnan(result).any()
        np.testing.assert_array_equal(result, expected)
        seen.add(result.tobytes())
    assert len(seen) == 11


@pytest.mark.parametrize("precision", ["fp32", "mixed"])
def test_branches_with_poisoned_memory(device: DeviceInfo, precision: str) -> None:
    joins(device)
    graph = build(BRANCHES)
    listed, joined = players(graph, device, precision)
    assert device.is_cpu or "of them crossed" in joined.plan.launches[0].node
    for seed in range(200):
        arrays = inputs_of(graph, seed % 13)
        listed.poison()
        joined.poison()
        for expected, result in zip(listed.run(arrays), joined.run(arrays), strict=True):
            assert not np.isnan(result).any()
            np.testing.assert_array_equal(result, expected)


def placed(array: np.ndarray, shift: int) -> np.ndarray:
    """Copy the array to an address that is a multiple of 64 plus `shift` bytes."""
    memory = np.empty(array.nbytes + 128, np.uint8)
    start = -memory.ctypes.data % 64 + shift
    copy = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def test_inputs_at_any_address(device: DeviceInfo) -> None:
    joins(device)
    graph = build(NETWORK)
    listed, joined = players(graph, device, "fp32")
    for seed, shift in enumerate((0, 16, 4, 48, 1, 0, 12)):
        arrays = inputs_of(graph, seed)
        expected = listed.run(arrays)[0]
        where = [placed(array, shift) for array in arrays]
        np.testing.assert_array_equal(joined.run(where)[0], expected)
        where[0][...] = inputs_of(graph, seed + 100)[0]  # the same memory with other numbers
        np.testing.assert_array_equal(joined.run(where)[0], listed.run(where)[0])
        across = [np.asfortranarray(array) for array in arrays]
        np.testing.assert_array_equal(joined.run(across)[0], expected)


def test_an_input_that_is_also_an_output(device: DeviceInfo) -> None:
    joins(device)
    graph = build(NETWORK.replace("output h", "output h, x"))
    listed, joined = players(graph, device, "fp32")
    for seed in range(3):
        arrays = inputs_of(graph, seed)
        for result, expected in zip(joined.run(arrays), listed.run(arrays), strict=True):
            np.testing.assert_array_equal(result, expected)
        np.testing.assert_array_equal(joined.run(arrays)[1], arrays[0])


def test_a_host_that_stalls_during_handover(
    device: DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel waits for a second and continues with what it has; the run is repeated."""
    if not device.reaches_host:
        pytest.skip("kernels of this device are not launched before their inputs are there")
    graph = build(NETWORK)
    listed, joined = players(graph, device, "fp32")
    copy = ChunkedCopy.copy

    def slowly(bands: ChunkedCopy, source: np.ndarray) -> Iterator[tuple[int, int]]:
        time.sleep(3.0)
        yield from copy(bands, source)

    for seed, way in enumerate((copy, slowly, copy)):
        monkeypatch.setattr(ChunkedCopy, "copy", way)
        joined.poison()
        arrays = inputs_of(graph, seed)
        np.testing.assert_array_equal(joined.run(arrays)[0], listed.run(arrays)[0])


def test_two_at_once(device: DeviceInfo) -> None:
    """Threads that run models on one device get their own results."""
    joins(device)
    graph = build(NETWORK)
    wanted, one = players(graph, device, "fp32")
    _, other = players(graph, device, "fp32")
    arrays = [inputs_of(graph, seed) for seed in range(8)]
    expected = [wanted.run(item)[0] for item in arrays]

    def work(player: Player, first: int) -> bool:
        numbers = [(first + 3 * turn) % 8 for turn in range(200)]
        return all(np.array_equal(player.run(arrays[n])[0], expected[n]) for n in numbers)

    with ThreadPoolExecutor(2) as pool:
        assert all(pool.map(work, (one, other), (0, 5)))


@pytest.mark.parametrize("seed", range(700, 705))
def test_random_graphs(device: DeviceInfo, seed: int) -> None:
    joins(device)
    graph = Random(seed).graph(size=12)
    listed, joined = players(graph, device, "fp32")
    for number in range(5):
        arrays = inputs_of(graph, number)
        joined.poison()
        for one, other in zip(listed.run(arrays), joined.run(arrays), strict=True):
            np.testing.assert_array_equal(one, other)
