"""The `threads` option limits CPU devices of OpenCL by creating a sub-device."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from small_networks import deep_onnx
from tiny_matrix import WEIGHTS, matrix, numbers

import fourfold
from fourfold.backends import with_threads
from fourfold.backends.null import NULL_GPU
from fourfold.backends.opencl import binding as cl
from fourfold.backends.opencl import devices as opencl
from fourfold.config import Config
from fourfold.device import DeviceInfo
from fourfold.errors import InputError

TASKS = Path("/proc/self/task")


@pytest.fixture
def cpu_device(device: DeviceInfo) -> DeviceInfo:
    if not device.is_cpu or device.compute_units < 2:
        pytest.skip("the test needs a CPU with several cores")
    if with_threads(device, 1) is device:
        pytest.skip("its driver cannot limit the cores")
    return device


def busy_threads(before: dict[str, int]) -> dict[str, int]:
    """Return the other threads of this process that computed since, with their time in ticks."""
    results = {}
    for task in TASKS.iterdir() if TASKS.exists() else ():
        words = (task / "stat").read_text().rpartition(")")[2].split()
        ticks = int(words[11]) + int(words[12]) - before.get(task.name, 0)
        if ticks and task.name != str(os.getpid()):
            results[task.name] = ticks
    return results


def test_sub_device_has_its_own_facts(cpu_device: DeviceInfo) -> None:
    part = with_threads(cpu_device, 1)
    assert part.compute_units == 1
    assert part.name == cpu_device.name
    assert part.address == cpu_device.address
    assert part != cpu_device
    assert with_threads(cpu_device, 1) == part
    assert opencl.context_of(part) is not opencl.context_of(cpu_device)


@pytest.mark.parametrize("launches", ["list", "one"])
def test_session_runs_on_one_thread(
    cpu_device: DeviceInfo, launches: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FOURFOLD_LAUNCHES", launches)
    model, x = deep_onnx(), np.random.default_rng(4).uniform(-1, 1, (1, 14, 14, 32))
    image = x.astype(np.float32)
    with fourfold.Session(model, cpu_device, cache=tmp_path) as session:
        expected = session.run(image)["layer4"]
    for origin in ("model", "store"):
        with fourfold.Session(model, cpu_device, cache=tmp_path, threads=1) as session:
            assert session.device.compute_units == 1
            assert session.origin == origin  # what was made for all cores is for all cores
            np.testing.assert_allclose(session.run(image)["layer4"], expected, atol=1e-4)


@pytest.mark.skipif(sys.platform != "linux", reason="Linux tells what each thread did")
def test_other_cores_stay_idle(cpu_device: DeviceInfo) -> None:
    model = deep_onnx(layers=5, channels=64, size=56)
    image = np.zeros((1, 56, 56, 64), np.float32)
    with fourfold.Session(model, cpu_device, cache=None, threads=1) as session:
        session.run(image)  # compiles the kernels
        before = busy_threads({})
        for _ in range(90):
            session.run(image)
        busy = busy_threads(before)
    # The kernel counts whole ticks: a thread that only woke up may count as one.
    *others, most = sorted(busy.values())
    assert sum(others) <= 0.1 * most, busy


def test_uses_all_cores_by_default(cpu_device: DeviceInfo) -> None:
    for threads in (None, cpu_device.compute_units, cpu_device.compute_units + 7):
        assert with_threads(cpu_device, threads) is cpu_device


def test_threads_do_not_affect_gpus() -> None:
    assert with_threads(NULL_GPU, 1) is NULL_GPU


def test_logs_drivers_that_cannot_limit_cores(
    cpu_device: DeviceInfo, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(device: cl.Device, units: int) -> cl.Device:
        raise cl.Error("clCreateSubDevices", -18)

    monkeypatch.setattr(cl.Device, "part", refuse)
    opencl.device_part.cache_clear()
    with (
        caplog.at_level(logging.WARNING, "fourfold"),
        fourfold.Session(matrix(), cpu_device, cache=None, threads=1) as session,
    ):
        assert session.device == cpu_device
        np.testing.assert_allclose(session.run(numbers(1))["y"], numbers(1) @ WEIGHTS.T, atol=1e-6)
    opencl.device_part.cache_clear()
    assert "uses all" in caplog.text


def test_environment_sets_threads(cpu_device: DeviceInfo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOURFOLD_THREADS", "1")
    with fourfold.Session(matrix(), cpu_device, cache=None) as session:
        assert session.device.compute_units == 1
    with fourfold.Session(
        matrix(), cpu_device, cache=None, threads=cpu_device.compute_units
    ) as opened:
        assert opened.device == cpu_device


def test_pocl_is_configured_before_it_is_loaded(device: DeviceInfo) -> None:
    if device.platform != "Portable Computing Language":
        pytest.skip("other drivers have no such variable")
    script = "import fourfold; print([i.compute_units for i in fourfold.devices() if i.is_cpu])"
    environment = {**os.environ, "FOURFOLD_THREADS": "1"}
    command = [sys.executable, "-c", script]
    outputs = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert "1" in outputs.stdout.strip("[]\n").split(", ")


def test_rejects_invalid_thread_counts(device: DeviceInfo) -> None:
    with pytest.raises(InputError, match="threads is 0"):
        fourfold.Session(matrix(), device, cache=None, threads=0)
    with pytest.raises(InputError, match="FOURFOLD_THREADS is 'all'"):
        Config.from_environment({"FOURFOLD_THREADS": "all"})
