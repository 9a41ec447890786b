"""Skipped or degraded work that raises no error is logged with its reason."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from tiny_plan import line

from fourfold import backends
from fourfold.backends import discovery
from fourfold.backends.cpu.runtimes import import_runtime
from fourfold.backends.null import NULL_GPU
from fourfold.backends.opencl import binding as cl
from fourfold.backends.opencl import devices, feature_probes
from fourfold.errors import BuildError, DeviceError
from fourfold.export.quantize import running
from fourfold.runtime.in_flight import Flight
from fourfold.store.keys import program_parts
from fourfold.store.store import Store
from fourfold.store.transfer import export_store
from fourfold.support.log import Log

REASON = "the driver crashed"


def fail(*_: Any, **_named: Any) -> NoReturn:
    raise DeviceError("the device failed", REASON, "restart it")


@pytest.fixture(autouse=True)
def debug_log(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.DEBUG, "fourfold"):
        yield caplog


def test_logs_a_runtime_that_cannot_be_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, debug_log: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "broken_runtime.py").write_text("raise ImportError('libmissing.so')\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert import_runtime("broken_runtime", Log("cpu")) is None
    assert "broken_runtime is installed but cannot be imported: libmissing.so" in debug_log.text


def test_does_not_log_a_runtime_that_is_not_installed(debug_log: pytest.LogCaptureFixture) -> None:
    assert import_runtime("no_such_runtime.interpreter", Log("cpu")) is None
    assert not debug_log.text


def test_logs_damaged_entries_that_are_not_exported(
    tmp_path: Path, debug_log: pytest.LogCaptureFixture
) -> None:
    store = Store(tmp_path)
    store.put_binary("m.tflite", program_parts(line().plan.program, NULL_GPU), b"\x7fELF")
    (entry,) = store.entries()
    path = tmp_path / "entries" / entry.file
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    assert export_store(store, tmp_path / "all.fourfold")[0] == 0
    assert "skipped a binary of m.tflite" in debug_log.text


def test_logs_platforms_that_fail(
    monkeypatch: pytest.MonkeyPatch, debug_log: pytest.LogCaptureFixture
) -> None:
    def no_devices() -> NoReturn:
        raise cl.Error("clGetDeviceIDs", -1)

    platform = SimpleNamespace(name="an old driver", devices=no_devices)
    monkeypatch.setattr(cl, "platforms", lambda: [platform])
    assert devices.found_devices.__wrapped__() == ()
    assert "an old driver has no device" in debug_log.text


def test_logs_backends_that_fail(
    monkeypatch: pytest.MonkeyPatch, debug_log: pytest.LogCaptureFixture
) -> None:
    backend = SimpleNamespace(name="imagined", listed=True, devices=fail)
    monkeypatch.setattr(discovery, "_in_order", lambda: [backend])
    assert discovery.leading_devices() == []
    assert "imagined has no device: the device failed" in debug_log.text


def test_logs_why_samples_run_in_numpy(
    monkeypatch: pytest.MonkeyPatch, debug_log: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(backends, "find_device", fail)
    assert running.find_runner(None) is None
    assert f"samples run in NumPy: the device failed: {REASON}" in debug_log.text


def test_logs_and_keeps_the_error_of_a_run_in_flight(debug_log: pytest.LogCaptureFixture) -> None:
    ended: list[Flight] = []
    flight = Flight(SimpleNamespace(end=fail), ["y"], ended.append)  # type: ignore[arg-type]
    flight.wait()
    assert ended == [flight]
    assert REASON in debug_log.text
    with pytest.raises(DeviceError, match=REASON):
        flight.result()


def test_logs_probes_that_fail(debug_log: pytest.LogCaptureFixture) -> None:
    def does_not_build() -> bool:
        raise BuildError("the kernels do not build on it", "error: no such type", "")

    assert not feature_probes.succeeds(does_not_build)
    assert "a probe fails: the kernels do not build on it: error: no such type" in debug_log.text
