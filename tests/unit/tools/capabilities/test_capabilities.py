"""Recommended options and model support, from probes, measurements and known faults."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from docs.tiny_model import tiny_model
from tflite_writer import Operator, Tensor, write

import fourfold
from fourfold import backends
from fourfold.backends.null import NULL_GPU
from fourfold.device import DeviceInfo
from fourfold.errors import DeviceError, InputError
from fourfold.litert import GpuDelegate
from fourfold.store.keys import device_key
from fourfold.store.store import folder_store
from fourfold.tools import capabilities
from fourfold.tools.capabilities import probe

GPU = replace(NULL_GPU, name="Some GPU", vendor="Somebody")


@pytest.fixture
def healthy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let devices that are not attached pass the self-test."""
    monkeypatch.setattr(capabilities, "_find_error", lambda info, precision: "")


@pytest.mark.parametrize("precision", ["fp32", "mixed"])
def test_device_computes_correct_results(precision: str, device: DeviceInfo) -> None:
    assert probe.find_error(device, precision) == ""


@pytest.mark.needs_device
def test_failing_device_is_reported() -> None:
    assert "is not available any more" in probe.find_error(GPU, "fp32")
    options = fourfold.best_options(GPU)
    assert options.place == "cpu"
    assert options.for_session() == {"device": "cpu", "threads": options.threads}


def test_wrong_results_are_reported(monkeypatch: pytest.MonkeyPatch, device: DeviceInfo) -> None:
    probe.find_error.cache_clear()
    monkeypatch.setattr(probe, "TOLERANCE", dict.fromkeys(probe.TOLERANCE, -1.0))
    assert "is off by" in probe.find_error(device, "fp32")
    probe.find_error.cache_clear()


@pytest.mark.needs_device
@pytest.mark.usefixtures("healthy")
def test_recommends_mixed_for_an_unknown_gpu() -> None:
    options = fourfold.best_options(GPU)
    assert (options.place, options.precision) == ("gpu", "mixed")
    assert options.inference_preference == "balanced"
    assert options.for_delegate()["precision_loss_allowed"] is True
    assert options.for_session()["precision"] == "mixed"
    assert "Some GPU: precision mixed" in str(options)


@pytest.mark.needs_device
@pytest.mark.usefixtures("healthy")
@pytest.mark.parametrize(("ratio", "precision"), [(0.5, "mixed"), (1.2, "fp32")])
def test_measurements_decide_the_precision(
    ratio: float, precision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOURFOLD_CACHE", str(tmp_path))
    store = folder_store(tmp_path)
    for number in range(4):
        for name, kind, factor in (("fp32", "f32", 1.0), ("mixed", "f16", ratio)):
            place = f"f32[1,{number}] as sliced {kind}"
            key = f"conv2d {number} : {place} -> {place} ({name})"
            store.put_choice(device_key(GPU), key, "direct: 1", (number + 1) * factor)
    options = fourfold.best_options(GPU)
    assert options.precision == precision
    assert options.inference_preference == "fast_single_answer"
    assert f"mixed took {ratio:.0%} of the time of fp32 in 4 measured kernels" in str(options)


@pytest.mark.needs_device
@pytest.mark.usefixtures("healthy")
@pytest.mark.parametrize(
    ("name", "count", "preference"),
    [("Mali-T628", 2, "fast_single_answer"), ("Mali-G76", 1, "balanced"), ("Arc A770", 0, "")],
)
def test_known_faults_change_the_options(name: str, count: int, preference: str) -> None:
    device = replace(GPU, name=name)
    assert len(capabilities.faults_of(device)) == count
    options = fourfold.best_options(device)
    assert options.inference_preference == (preference or "balanced")
    assert len(options.faults) == count
    GpuDelegate(tiny_model(), **{**options.for_delegate(), "device": None})


def test_every_fault_has_a_source() -> None:
    assert all(fault.what and fault.source for fault in capabilities.known_faults())


def no_platform() -> tuple[Any, ...]:
    raise DeviceError("no OpenCL platform was found", "there is no driver", "install one")


@pytest.mark.parametrize("result", [no_platform, tuple])
def test_recommends_the_cpu_without_devices(result: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "devices", result)
    options = fourfold.best_options()
    assert (options.place, options.precision) == ("cpu", "fp32")
    assert options.threads >= 1
    support = fourfold.is_supported(tiny_model())
    assert not support
    assert "on the CPU with" in support.advice


@pytest.mark.needs_device
def test_rejects_unknown_devices() -> None:
    with pytest.raises(DeviceError, match="was not found"):
        fourfold.best_options("no such device")


def test_supported_model(device: DeviceInfo) -> None:
    support = fourfold.is_supported(tiny_model(), device)
    assert support
    assert (support.verdict, support.operators, support.on_gpu) == ("gpu", 4, 4)
    assert support.share == 1.0
    assert support.reasons == ()


def test_unsupported_model(device: DeviceInfo) -> None:
    tensors = [Tensor("x", (1, 4)), Tensor("y", (1, 4))]
    content = write(tensors, [Operator("CUSTOM", ["x"], ["y"], custom_code="Other")], ["x"], ["y"])
    support = fourfold.is_supported(content, device)
    assert not support
    assert support.verdict == "no"
    assert "CUSTOM Other" in str(support)


def test_fallbacks_have_a_reason(device: DeviceInfo) -> None:
    pytest.importorskip("ai_edge_litert")
    tensors = [Tensor("x", (1, 4)), Tensor("t", (1, 4)), Tensor("y", (1, 4, 4))]
    operators = [Operator("RELU", ["x"], ["t"]), Operator("MATRIX_DIAG", ["t"], ["y"])]
    support = fourfold.is_supported(write(tensors, operators, ["x"], ["y"]), device)
    assert support.on_gpu < support.operators == 2
    assert any("not supported" in reason.reason for reason in support.reasons)


@pytest.mark.needs_device
def test_rejects_missing_files() -> None:
    with pytest.raises(InputError, match="cannot open"):
        fourfold.is_supported("nowhere.tflite")
