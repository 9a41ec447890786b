"""A session's inputs, outputs and errors."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from tiny_matrix import WEIGHTS, matrix, numbers

import fourfold
from fourfold.backends.opencl import binding as cl
from fourfold.backends.opencl import devices as opencl
from fourfold.backends.opencl.launch_queue import launch_queue
from fourfold.backends.webgpu import devices as webgpu
from fourfold.device import DeviceInfo
from fourfold.errors import DeviceError, InputError


@pytest.fixture(scope="module")
def session(device: DeviceInfo) -> Iterator[fourfold.Session]:
    with fourfold.Session(matrix(), device, cache=None) as session:
        yield session


def test_describes_inputs_and_outputs(session: fourfold.Session) -> None:
    assert [(i.name, i.shape, str(i.dtype)) for i in session.inputs] == [("x", (2, 4), "float32")]
    assert [(o.name, o.shape) for o in session.outputs] == [("y", (2, 3))]


@pytest.mark.parametrize("form", ["dict", "list", "array", "strided"])
def test_accepts_inputs_by_name_by_position_or_alone(session: fourfold.Session, form: str) -> None:
    x = numbers(1)
    strided = np.repeat(x, 2, axis=1)[:, ::2]
    inputs = {"dict": {"x": x}, "list": [x], "array": x, "strided": strided}[form]
    np.testing.assert_allclose(session.run(inputs)["y"], x @ WEIGHTS.T, atol=1e-6)


def test_later_runs_do_not_overwrite_results(session: fourfold.Session) -> None:
    first = session.run(numbers(1))["y"]
    copy = first.copy()
    session.run(numbers(2))
    np.testing.assert_array_equal(first, copy)


def test_shapes_option_changes_the_batch(device: DeviceInfo) -> None:
    x = numbers(3, rows=5)
    with fourfold.Session(matrix(), device, shapes={"x": (5, 4)}, cache=None) as session:
        np.testing.assert_allclose(session.run(x)["y"], x @ WEIGHTS.T, atol=1e-6)


def test_duplicate_output_names_become_unique(device: DeviceInfo) -> None:
    with fourfold.Session(matrix(repeat=True), device, cache=None) as session:
        results = session.run(numbers(1))
    assert len(results) == 2
    first, second = results.values()
    np.testing.assert_array_equal(first, second)


def test_several_threads_run_at_once(session: fourfold.Session) -> None:
    failed_seeds: list[int] = []

    def work(seed: int) -> None:
        for step in range(20):
            x = numbers(100 * seed + step)
            if not np.allclose(session.run(x)["y"], x @ WEIGHTS.T, atol=1e-6):
                failed_seeds.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed_seeds == []


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"z": numbers(1)}, "no input 'z'"),
        ({}, "'x' is missing"),
        ([numbers(1), numbers(1)], "2 arrays were passed for 1 inputs"),
        (numbers(1).astype(np.int32), "is int32, not float32"),
        (numbers(1, rows=3), "has shape (3, 4), not (2, 4)"),
    ],
)
def test_rejects_invalid_inputs(session: fourfold.Session, value: object, message: str) -> None:
    with pytest.raises(InputError) as caught:
        session.run(value)  # type: ignore[arg-type]
    assert message in caught.value.what
    assert caught.value.why
    assert caught.value.fix


def test_closed_session_does_not_run(device: DeviceInfo) -> None:
    session = fourfold.Session(matrix(), device, cache=None)
    session.close()
    session.close()
    with pytest.raises(InputError, match="closed"):
        session.run(numbers(1))


@pytest.mark.needs_device
def test_rejects_unknown_devices() -> None:
    with pytest.raises(DeviceError, match="device 'nothing like this' was not found"):
        fourfold.Session(matrix(), device="nothing like this", cache=None)


def test_rejects_unknown_precisions(device: DeviceInfo) -> None:
    with pytest.raises(InputError, match="precision"):
        fourfold.Session(matrix(), device, precision="fp8", cache=None)


def test_error_without_a_platform_suggests_a_package(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing() -> list:
        raise cl.Error("clGetPlatformIDs", -1001)

    monkeypatch.setattr(opencl, "found_devices", opencl.found_devices.__wrapped__)
    monkeypatch.setattr(cl, "platforms", nothing)
    # the last-resort backend finds none, either
    monkeypatch.setattr(webgpu, "found_devices", tuple)
    with pytest.raises(DeviceError, match="no OpenCL platform") as caught:
        fourfold.devices.__wrapped__()  # bypass the cached list
    assert "fourfold[cpu]" in caught.value.fix


def test_out_of_memory_error_states_the_required_bytes(
    device: DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise cl.Error("clCreateBuffer", -4)

    monkeypatch.setattr(cl.Buffer, "_make", full)
    with pytest.raises(DeviceError, match="out of memory") as caught:
        fourfold.Session(matrix(), device, cache=None)
    assert "bytes" in caught.value.why


def test_profile_names_every_kernel(session: fourfold.Session) -> None:
    times = session.profile(numbers(1), runs=2)
    assert [time.kernel for time in times] == ["fully_connected_0"]
    assert all(time.seconds > 0 for time in times)


def test_persistent_kernels_are_serialized_on_a_gpu(device: DeviceInfo) -> None:
    """Two persistent kernels could each occupy half of a GPU and wait forever; CPU work-groups do
    not wait like this.
    """
    context, plan = opencl.context_of(device), fourfold.Session(matrix(), device, cache=None).plan
    waits = replace(plan, requirements=plan.requirements._replace(resident_groups=16))
    one, other = launch_queue(context, waits), launch_queue(context, waits)
    assert one.queue is other.queue
    assert launch_queue(context, plan).queue is not launch_queue(context, plan).queue
    launched = threading.Event()
    with one.alone():
        thread = threading.Thread(target=lambda: (other.launch([]), launched.set()))
        thread.start()
        assert not launched.wait(0.1), "launches of the other queue wait"
    thread.join()
    assert launched.is_set()
