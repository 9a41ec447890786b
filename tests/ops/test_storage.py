"""Storage of values as fp32, fp16 and steps in mixed precision, and the accuracy of the results."""

from __future__ import annotations

import numpy as np
import pytest
from fake_devices import target_of
from random_graphs import Random, build

from fourfold.backends import make_player
from fourfold.backends.cpu.reference import evaluate
from fourfold.backends.null import NULL_GPU
from fourfold.codegen import context
from fourfold.codegen.context import KernelOptions
from fourfold.compiler.lower import make_plan, specialise, storage
from fourfold.compiler.lower.locations import choose_locations
from fourfold.compiler.lower.specialise import peak_bytes, specialise_target
from fourfold.compiler.rewrite import rewrite
from fourfold.device import DeviceInfo
from fourfold.graph import Graph

MIXED = KernelOptions("mixed")
BOUNDED = {"relu6": 6.0, "relu_0_to_1": 1.0, "relu_n1_to_1": 1.0}


@pytest.fixture
def no_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable the size limit below which values stay in fp32."""
    monkeypatch.setattr(storage, "MAX_FP32_ELEMENTS", 0)
    monkeypatch.setattr(context, "MAX_FP32_WEIGHTS", 0)
    monkeypatch.setattr(specialise, "MAX_FP32_ARENA_BYTES", 0)


def play(graph: Graph, device: DeviceInfo, seed: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return the results of the device and of the references for random inputs."""
    random = np.random.default_rng(seed)
    types = {name: graph.types[name] for name in graph.inputs}
    inputs = {
        n: np.asarray(random.uniform(-9, 9, t.shape), t.dtype.numpy) for n, t in types.items()
    }
    player = make_player(device, make_plan(rewrite(graph, verify=True), device, MIXED))
    player.poison()
    results = player.run(list(inputs.values()))
    player.close()
    wanted = evaluate(graph, inputs)
    return results, [wanted[name] for name in graph.outputs]


def chain(op: str, channels: int) -> Graph:
    """Return a graph with two values between kernels: a bounded one and an unbounded one."""
    return build(
        f"""
        input x: f32[1,13,11,{channels}]
        const w: f32[7,3,3,{channels}]
        y = {op}(x)
        z = conv2d(y, w)
        a = relu(z)
        b = transpose(a; permutation=(0,2,1,3))
        c = concat(y, y; axis=1)
        d = reduce_max(c; axes=(1,), keep_dims=True)
        output b, d
        """
    )


@pytest.mark.usefixtures("no_limits")
@pytest.mark.parametrize(
    ("op", "kind"), [("relu6", "u16"), ("relu_n1_to_1", "i16"), ("relu", "f16")]
)
def test_bounded_values_are_stored_as_steps(op: str, kind: str) -> None:
    graph = chain(op, 8)
    places = choose_locations(graph, specialise_target(graph, target_of(NULL_GPU, MIXED)).options)
    assert [places[name].dtype.value for name in "xyz"] == ["f32", kind, "f16"]
    assert (places["y"].scale is None) == (kind == "f16")
    assert choose_locations(graph, KernelOptions("fp32"))["y"].dtype.value == "f32"
    assert choose_locations(graph, KernelOptions("fp16"))["y"].dtype.value == "f16"


@pytest.mark.usefixtures("no_limits")
@pytest.mark.devices(takes=lambda device: not device.matrix_units)  # matrix units need fp16
@pytest.mark.parametrize("op", BOUNDED)
@pytest.mark.parametrize("channels", [1, 3, 5, 8, 131])
def test_steps_are_finer_than_fp16(op: str, channels: int, device: DeviceInfo) -> None:
    graph = build(
        f"""
        input x: f32[1,5,7,{channels}]
        y = {op}(x)
        z = transpose(y; permutation=(0,2,1,3))
        output z
        """
    )
    (result,), (wanted,) = play(graph, device, channels)
    assert (
        np.abs(result - wanted).max() <= BOUNDED[op] / 65534
    )  # half a step, or half a signed step


@pytest.mark.usefixtures("no_limits")
@pytest.mark.parametrize("op", BOUNDED)
@pytest.mark.parametrize("channels", [3, 8, 13])
def test_every_reader_decodes_steps(op: str, channels: int, device: DeviceInfo) -> None:
    for result, wanted in zip(*play(chain(op, channels), device, channels), strict=True):
        assert np.abs(result - wanted).max() <= 2e-3 * np.abs(wanted).max()


@pytest.mark.usefixtures("no_limits")
@pytest.mark.parametrize("seed", range(600, 606))
def test_random_graphs_in_fp16_and_steps(seed: int, device: DeviceInfo) -> None:
    graph = Random(seed).graph(size=8)
    results, expected = play(graph, device, seed)
    for result, wanted in zip(results, expected, strict=True):
        known = np.isfinite(wanted) & (np.abs(wanted) < 6e4)
        scale = max(1.0, float(np.abs(wanted[known]).max(initial=0)))
        if wanted.dtype.kind == "f" and np.abs(wanted[known]).max(initial=0) < 1e3:
            assert np.abs(result[known] - wanted[known]).max(initial=0) <= 5e-2 * scale


def test_values_with_a_small_total_size_stay_fp32() -> None:
    few, many = chain("relu", 8), chain("relu", 20011)
    assert peak_bytes(few) <= specialise.MAX_FP32_ARENA_BYTES < peak_bytes(many)
    for graph, kinds in ((few, "f32 f32"), (many, "f16 f32")):
        places = choose_locations(
            graph, specialise_target(graph, target_of(NULL_GPU, MIXED)).options
        )
        assert " ".join(places[name].dtype.value for name in "yz") == kinds


def test_weights_exact_in_fp16_are_stored_as_fp16() -> None:
    graph = chain("relu", 8)
    halves = graph.constants["w"].astype(np.float16).astype(np.float32)
    exact = Graph(graph.nodes, graph.inputs, graph.outputs, graph.types, {"w": halves})
    sizes = [make_plan(item, NULL_GPU, MIXED).constants.nbytes for item in (graph, exact)]
    assert sizes[1] < 0.6 * sizes[0]
