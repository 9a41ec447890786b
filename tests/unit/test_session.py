"""Session: what it takes and gives, and what it says when that does not fit."""

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
    with fourfold.Session(matrix(), device, cache=None) as made:
        yield made


def test_ports_say_what_they_are(session: fourfold.Session) -> None:
    assert [(i.name, i.shape, str(i.dtype)) for i in session.inputs] == [("x", (2, 4), "float32")]
    assert [(o.name, o.shape) for o in session.outputs] == [("y", (2, 3))]


@pytest.mark.parametrize("form", ["dict", "list", "array", "strided"])
def test_inputs_by_name_by_position_or_alone(session: fourfold.Session, form: str) -> None:
    x = numbers(1)
    strided = np.repeat(x, 2, axis=1)[:, ::2]
    given = {"dict": {"x": x}, "list": [x], "array": x, "strided": strided}[form]
    np.testing.assert_allclose(session.run(given)["y"], x @ WEIGHTS.T, atol=1e-6)


def test_results_are_new_arrays(session: fourfold.Session) -> None:
    first = session.run(numbers(1))["y"]
    kept = first.copy()
    session.run(numbers(2))
    np.testing.assert_array_equal(first, kept)


def test_another_batch_by_shapes(device: DeviceInfo) -> None:
    x = numbers(3, rows=5)
    with fourfold.Session(matrix(), device, shapes={"x": (5, 4)}, cache=None) as made:
        np.testing.assert_allclose(made.run(x)["y"], x @ WEIGHTS.T, atol=1e-6)


def test_names_that_a_model_repeats_become_unique(device: DeviceInfo) -> None:
    with fourfold.Session(matrix(repeat=True), device, cache=None) as made:
        results = made.run(numbers(1))
    assert len(results) == 2
    first, second = results.values()
    np.testing.assert_array_equal(first, second)


def test_several_threads_at_once(session: fourfold.Session) -> None:
    wrong: list[int] = []

    def work(seed: int) -> None:
        for step in range(20):
            x = numbers(100 * seed + step)
            if not np.allclose(session.run(x)["y"], x @ WEIGHTS.T, atol=1e-6):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"z": numbers(1)}, "no input 'z'"),
        ({}, "'x' is missing"),
        ([numbers(1), numbers(1)], "2 arrays were passed for 1 inputs"),
        (numbers(1).astype(np.int32), "is int32, not float32"),
        (numbers(1, rows=3), "has shape (3, 4), not (2, 4)"),
    ],
)
def test_inputs_that_do_not_fit(session: fourfold.Session, given: object, message: str) -> None:
    with pytest.raises(InputError) as caught:
        session.run(given)  # type: ignore[arg-type]
    assert message in caught.value.what
    assert caught.value.why
    assert caught.value.fix


def test_a_closed_session_says_so(device: DeviceInfo) -> None:
    made = fourfold.Session(matrix(), device, cache=None)
    made.close()
    made.close()
    with pytest.raises(InputError, match="closed"):
        made.run(numbers(1))


@pytest.mark.needs_device
def test_no_such_device() -> None:
    with pytest.raises(DeviceError, match="device 'nothing like this' was not found"):
        fourfold.Session(matrix(), device="nothing like this", cache=None)


def test_no_such_precision(device: DeviceInfo) -> None:
    with pytest.raises(InputError, match="precision"):
        fourfold.Session(matrix(), device, precision="fp8", cache=None)


def test_no_platform_tells_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing() -> list:
        raise cl.Error("clGetPlatformIDs", -1001)

    monkeypatch.setattr(opencl, "found_devices", opencl.found_devices.__wrapped__)
    monkeypatch.setattr(cl, "platforms", nothing)
    monkeypatch.setattr(webgpu, "found_devices", tuple)  # the last resort has none, either
    with pytest.raises(DeviceError, match="no OpenCL platform") as caught:
        fourfold.devices.__wrapped__()  # not what was found before
    assert "fourfold[cpu]" in caught.value.fix


def test_out_of_memory_names_what_was_needed(
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


def test_persistent_kernels_take_turns_on_a_gpu(device: DeviceInfo) -> None:
    """Two of them could each hold half of a GPU and wait for ever; a CPU's groups never wait so."""
    context, plan = opencl.context_of(device), fourfold.Session(matrix(), device, cache=None).plan
    waits = replace(plan, requirements=plan.requirements._replace(resident_groups=16))
    one, other = launch_queue(context, waits), launch_queue(context, waits)
    assert one.queue is other.queue
    assert launch_queue(context, plan).queue is not launch_queue(context, plan).queue
    launched = threading.Event()
    with one.alone():
        thread = threading.Thread(target=lambda: (other.launch([]), launched.set()))
        thread.start()
        assert not launched.wait(0.1), "launches of others wait"
    thread.join()
    assert launched.is_set()
