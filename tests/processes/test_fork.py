"""A forked child works or reports why it cannot; it never waits for missing threads."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from processes.children import play

from fourfold.device import DeviceInfo

REJECTED = "DeviceError: opencl was opened before this process was forked"
SPAWN, FORKSERVER = (
    pytest.param(method, marks=pytest.mark.slow) for method in ("spawn", "forkserver")
)
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a cache folder, so that the device is probed once."""
    return tmp_path_factory.mktemp("store")


@pytest.fixture(autouse=True)
def _only_drivers(device: DeviceInfo) -> None:
    if device.api != "opencl":
        pytest.skip("the device calls no OpenCL driver")


def test_child_rejects_a_device_opened_by_its_parent(device: DeviceInfo, cache: Path) -> None:
    right, ran, opened, *ended, listed, on_cpu, still_right = play(
        "opened_before_the_fork", device.address, cache=cache
    )
    assert (right, ran, opened) == (True, REJECTED, REJECTED)
    assert ended == [None, "dropped", "nothing"]
    assert (listed, on_cpu, still_right) == (True, True, True)


def test_child_opens_a_device_that_its_parent_did_not(device: DeviceInfo, cache: Path) -> None:
    assert play("nothing_before_the_fork", device.address, cache=cache) == [True, True]


def test_child_rejects_devices_listed_by_its_parent(device: DeviceInfo, cache: Path) -> None:
    outcomes = play("devices_before_the_fork", device.address, cache=cache)
    assert outcomes == [REJECTED, "nothing", True]


def test_cpu_session_works_in_a_child(tmp_path: Path) -> None:
    outcomes = play("on_the_cpu", tmp_path)
    closed = "InputError: this session is closed"
    assert outcomes == [True, [True, True, True], "nothing", closed, True]


def test_cpu_session_keeps_its_shape_in_a_child() -> None:
    assert play("resized_on_the_cpu") == [[[3, 4], True]]


def test_fork_during_runs_of_other_threads(device: DeviceInfo, cache: Path) -> None:
    *told, still_right = play("while_others_run", device.address, cache=cache)
    assert told == [True, REJECTED] * 8
    assert still_right


def test_fork_while_other_threads_use_the_memory_cache() -> None:
    assert play("with_a_memory_store") == [True] * 8


@pytest.mark.parametrize("method", ["spawn", FORKSERVER])
def test_session_is_passed_to_processes(device: DeviceInfo, cache: Path, method: str) -> None:
    assert play("sent_to_processes", device.address, method, cache=cache) == [True] * 6


@pytest.mark.parametrize("method", ["fork", SPAWN, FORKSERVER])
def test_workers_open_their_own_sessions(device: DeviceInfo, cache: Path, method: str) -> None:
    assert play("opened_by_workers", device.address, method, cache=cache) == [True] * 4


@pytest.mark.parametrize(("when", "answer"), [("before", REJECTED), ("after", True)])
def test_server_that_loads_and_forks(
    device: DeviceInfo, cache: Path, when: str, answer: object
) -> None:
    assert play("server_with_workers", device.address, when, cache=cache) == [answer] * 2


@pytest.mark.parametrize(
    ("method", "opened", "answer"),
    [
        ("fork", "at once", REJECTED.partition(": ")[2]),
        ("fork", "when needed", [True, True]),
        ("spawn", "at once", [True, True]),
    ],
)
def test_data_loader_with_workers(
    device: DeviceInfo, cache: Path, method: str, opened: str, answer: object
) -> None:
    outcomes = play("loader_with_workers", device.address, method, opened, cache=cache)
    assert outcomes == [answer] * 2


def test_engine_destructors_do_not_block_a_child(tmp_path: Path) -> None:
    """ONNX Runtime's destructors wait for its threads, which a child does not have."""
    pytest.importorskip("onnxruntime")
    from onnx_writer import small_model

    model = tmp_path / "relu.onnx"
    model.write_bytes(small_model("Relu", {"x": (2, 3)}))
    assert play("ends_after_onnxruntime", model) == [True, [True, True], "nothing"]


def test_copy_threads_are_recreated_in_a_child() -> None:
    assert play("copies_by_threads") == [True, True, True]


def test_locks_of_other_threads_are_released_in_a_child() -> None:
    assert play("locks_of_other_threads") == ["taken"] * 4
