"""Behavior that OpenCL does not guarantee is probed, and results are right without it."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from random_graphs import build

from fourfold.backends.cpu.reference import evaluate
from fourfold.backends.opencl import behavior_probes, probe, program
from fourfold.backends.opencl import binding as cl
from fourfold.backends.opencl.behavior_probes import ProbeKernels, open_kernels
from fourfold.backends.opencl.devices import context_of
from fourfold.backends.opencl.player import Player
from fourfold.codegen.opencl import probes
from fourfold.compiler.compile import plan_graph
from fourfold.device import HOST_ACCESS, UNPROMISED, DeviceInfo
from fourfold.errors import DeviceError
from fourfold.options import CompileOptions
from fourfold.plan import Plan

GRAPH = build(
    """input x: f32[1,9,7,5]
input z: f32[1,9,7,5]
a = relu(x)
b = add(a, z)
c = softmax(b)
d = softmax(c)
output d, b"""
)


@pytest.fixture
def kernels(device: DeviceInfo) -> ProbeKernels:
    return open_kernels(device, {**probes.SELF_TEST, **probes.CLAIMS})


@pytest.fixture
def copying_maps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a driver that maps a copy of a buffer and writes it back on unmap, as the standard
    allows.
    """

    def map_copy(queue: cl.Queue, buffer: cl.Buffer, size: int) -> Any:
        copy = np.empty(size, np.uint8)
        queue.read(buffer, copy)
        return (ctypes.c_ubyte * size).from_buffer(copy)

    def bring_back(queue: cl.Queue, buffer: cl.Buffer, memory: Any) -> None:
        queue.write(buffer, np.frombuffer(memory, np.uint8))

    monkeypatch.setattr(cl.Queue, "map", map_copy)
    monkeypatch.setattr(cl.Queue, "unmap", bring_back)


def run(player: Player, plan: Plan, seed: int) -> None:
    """Run a plan with new arrays and check the results."""
    random = np.random.default_rng(seed)
    x, z = (random.uniform(-2, 2, plan.inputs[0].type.shape).astype(np.float32) for _ in range(2))
    expected = evaluate(GRAPH, {"x": x, "z": z})
    for port, output in zip(plan.outputs, player.run([x, z]), strict=True):
        np.testing.assert_allclose(output, expected[port.name], rtol=1e-5)


def test_detects_drivers_that_map_copies(kernels: ProbeKernels, copying_maps: None) -> None:
    assert not behavior_probes._sees_mapped(kernels)


def test_results_are_right_with_copying_maps(device: DeviceInfo, copying_maps: None) -> None:
    plan = plan_graph(GRAPH, device, CompileOptions())
    player = Player(replace(device, persistent_mapping=False), plan)
    for seed in range(3):
        run(player, plan, seed)
    player.close()


def test_persistent_mapping_is_wrong_with_copying_maps(
    device: DeviceInfo, copying_maps: None
) -> None:
    """This shows that the probed facts keep results right."""
    if not device.is_cpu:
        pytest.skip("only a CPU's buffers may stay mapped")
    plan = plan_graph(GRAPH, device, CompileOptions(launches="list"))
    player = Player(replace(device, persistent_mapping=True), plan)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        run(player, plan, 1)
    player.close()


def feature_subsets(device: DeviceInfo) -> Iterator[DeviceInfo]:
    """Yield the device with all of its features, with some, and with none."""
    for values in product((True, False), repeat=2):
        facts = dict(zip(HOST_ACCESS, values, strict=True))
        if all(getattr(device, name) or not value for name, value in facts.items()):
            yield replace(device, **facts)  # type: ignore[arg-type]


@pytest.mark.parametrize("launches", ["list", "one"])
def test_all_transfer_modes_give_the_same_results(device: DeviceInfo, launches: str) -> None:
    plan = plan_graph(GRAPH, device, CompileOptions(launches=launches))
    for info in feature_subsets(device):
        player = Player(info, plan)
        player.poison()
        for seed in range(3):
            run(player, plan, seed)
        player.replay()
        player.profile([np.zeros(plan.inputs[0].type.shape, np.float32)] * 2, 1)
        run(player, plan, 7)
        player.close()


def test_arrays_are_read_in_place_only_with_both_features(device: DeviceInfo) -> None:
    plan = plan_graph(GRAPH, device, CompileOptions(launches="one"))
    if not device.is_cpu or not all(getattr(device, name) for name in UNPROMISED):
        pytest.skip(f"{device.name} lacks these features")
    for info in feature_subsets(device):
        player = Player(info, plan)
        both = info.persistent_mapping and info.host_pointers
        assert (player._ports.locations()[plan.inputs[0].buffer].memory is None) == both
        player.close()


def test_failed_run_waits_for_pending_copies(
    device: DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver must not read an array that its caller has freed."""
    plan = plan_graph(GRAPH, device, CompileOptions())
    player = Player(replace(device, persistent_mapping=False), plan)
    calls: list[str] = []

    def fails(*_: object) -> None:
        calls.append("launch")
        raise cl.Error("clEnqueueNDRangeKernel", -5)

    finish = cl.Queue.finish
    monkeypatch.setattr(cl.Queue, "replay", fails)
    monkeypatch.setattr(cl.Queue, "finish", lambda queue: (calls.append("finish"), finish(queue)))
    with pytest.raises(DeviceError, match="out of memory while running"):
        run(player, plan, 0)
    assert calls == ["launch", "finish"]
    player.close()


def test_detects_missing_forward_progress(
    kernels: ProbeKernels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ProbeKernels, "launch", lambda *_: None)
    assert not behavior_probes._makes_progress(kernels, 8)
    assert not behavior_probes._reaches_arrays(kernels)


def test_host_pointers_that_do_not_fit_are_not_probed(
    device: DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(behavior_probes, "_reaches_arrays", None)
    told: dict[str, object] = {}
    narrow = replace(device, address_bits=32)
    monkeypatch.setattr(
        behavior_probes, "open_kernels", lambda _, programs: open_kernels(device, programs)
    )
    for facts in behavior_probes.try_unpromised(narrow):
        told |= facts
    assert told["host_pointers"] is False


@pytest.mark.parametrize("end", ["os.abort()", "time.sleep(60)"])
def test_answers_before_a_crash_count(
    end: str, device: DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = 'print(\'{"self_test": ""}\'); print(\'{"persistent_mapping": true}\', flush=True)'
    monkeypatch.setattr(probe, "CHILD", f"import os, time; {answer}; {end}")
    monkeypatch.setattr(probe, "TIMEOUT_S", 5.0)
    result = probe.probe(replace(device, kind="cpu"), UNPROMISED)
    assert result == {"self_test": "", "persistent_mapping": True}


def test_crash_of_a_cpu_driver_is_an_error(
    device: DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first kernels are built in another process, whose last words are in the error."""
    words = "import os; os.write(2, b'LLVM ERROR: no space\\n'); os.abort()"
    monkeypatch.setattr(probe, "CHILD", words)
    with pytest.raises(DeviceError, match="SIGABRT: LLVM ERROR: no space"):
        probe.probe(replace(device, kind="cpu"), ["self_test"])
    monkeypatch.setattr(probe, "CHILD", "raise SystemExit(1)")
    assert probe.probe(replace(device, kind="cpu"), ["self_test"]) == {}


def test_full_disk_is_an_error(device: DeviceInfo, monkeypatch: pytest.MonkeyPatch) -> None:
    """PoCL's compiler would abort the process."""
    monkeypatch.setattr(program, "_free_bytes", lambda folder: 1 << 20)
    monkeypatch.setattr(program, "has_slow_compiler_start", lambda platform: True)
    with pytest.raises(DeviceError, match=r"is full \(1 MiB free\)"):
        program.build_text(context_of(device), probes.ANSWER)


def test_started_probes_are_not_started_again(
    device: DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = []

    class Process:
        def __init__(self, *_: object) -> None:
            begun.append(self)

        def answers(self) -> dict[str, bool]:
            return dict.fromkeys(UNPROMISED, len(begun) == 1)

    monkeypatch.setattr(probe, "ProbeProcess", Process)
    cpu = replace(device, kind="cpu")
    probe.begin_probe(replace(device, kind="gpu"), UNPROMISED)
    assert not begun
    probe.begin_probe(cpu, ["forward_progress"])
    probe.begin_probe(cpu, ["self_test"])
    assert len(begun) == 1
    assert probe.probe(cpu, ["forward_progress"]) == dict.fromkeys(UNPROMISED, True)
    assert probe.probe(cpu, ["forward_progress"]) == dict.fromkeys(UNPROMISED, False)


def test_gpus_are_not_probed_for_cpu_features(
    monkeypatch: pytest.MonkeyPatch, device: DeviceInfo
) -> None:
    monkeypatch.setattr(probe, "_ask_process", None)
    monkeypatch.setattr(probe, "_self_test", lambda info: {"self_test": "bytes"})
    result = probe.probe(replace(device, kind="gpu"), ["self_test"])
    assert result == {"self_test": "bytes", **dict.fromkeys(UNPROMISED, False)}
