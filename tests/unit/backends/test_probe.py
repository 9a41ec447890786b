"""Device probes: their facts, failures, and inconclusive results."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fourfold.backends.null import NULL_GPU
from fourfold.backends.opencl import OpenCLBackend, feature_probes, probe
from fourfold.backends.opencl import binding as cl
from fourfold.codegen.opencl import probes
from fourfold.codegen.opencl.prelude import build_options
from fourfold.device import IMAGES, PROBED, WAITING, DeviceInfo, is_fact

GPU = {"image_texels": 65536, "matrix_units": True}


def like_a_gpu(device: DeviceInfo) -> DeviceInfo:
    return replace(device, kind="gpu", claims=GPU, probed=())


def test_every_fact_has_a_probe() -> None:
    assert {name for told in probe.PROBES for name in told} == set(PROBED)


def test_probes_are_built_like_plans() -> None:
    """PoCL 7.1 reads images in OpenCL C 3.0, but not in 1.2, which plans use."""
    alone = (
        probes.HALF,
        probes.MATRIX,
        probes.IMAGES,
        probes.ROUNDS,
        probes.ADDRESS,
        probes.ANSWER,
    )
    for program in (*alone, *probes.SELF_TEST.values(), *probes.CLAIMS.values()):
        assert program.options == build_options()
        assert probes.joined([program]).options == build_options()


def test_probes_return_facts_of_the_right_type(device: DeviceInfo) -> None:
    result = OpenCLBackend().probe(device, PROBED)
    assert set(result) <= set(PROBED)
    # some drivers crash on images, which is inconclusive
    assert set(PROBED) - set(result) <= set(IMAGES)
    assert all(is_fact(name, value) for name, value in result.items())


def test_only_requested_facts_are_probed(
    device: DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = ("subgroups",)
    others = {told: None for told in probe.PROBES if told != expected}
    for told in others:
        monkeypatch.setitem(probe.PROBES, told, None)  # type: ignore[arg-type]
    assert set(probe.probe(device, expected)) == set(expected)


def test_unclaimed_features_are_absent_without_a_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feature_probes, "succeeds", None)
    monkeypatch.setattr(probe, "_ask_process", None)
    names = [name for name in PROBED if name != "half_arithmetic"]
    assert not any(probe.probe(NULL_GPU, names).values())


@pytest.mark.parametrize("child", ["import os; os.abort()", "print('[]')", "raise SystemExit(1)"])
@pytest.mark.parametrize("names", [IMAGES, WAITING])
def test_crashed_probe_is_inconclusive(
    child: str, names: tuple[str, ...], device: DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "CHILD", child)
    assert probe.probe(like_a_gpu(device), names) == {}


def test_probe_timeout_is_inconclusive(device: DeviceInfo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "CHILD", "import time; time.sleep(60)")
    monkeypatch.setattr(probe, "TIMEOUT_S", 0.2)
    assert probe.probe(like_a_gpu(device), WAITING) == {}


def test_negative_probe_is_conclusive(device: DeviceInfo, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = 'print(\'{"resident": false, "reaches_host": false, "name": 7}\')'
    monkeypatch.setattr(probe, "CHILD", answer)
    result = probe.probe(like_a_gpu(device), ["resident"])
    assert result == {"resident": False, "reaches_host": False}


def test_probe_process_finds_the_device_under_another_number(device: DeviceInfo) -> None:
    """Losing a fact because of it would disable the fastest kernels."""
    elsewhere = replace(device, ordinal=device.ordinal + 5)
    result = probe.ProbeProcess(elsewhere, probe.__name__, "unpromised").answers()
    assert result["self_test"] == ""


def test_probe_that_does_not_build_is_conclusive(device: DeviceInfo) -> None:
    """The barrier across groups is not written for CPUs."""
    if not device.is_cpu:
        pytest.skip("a GPU may be able to build it")
    result = probe.probe(like_a_gpu(device), WAITING)
    assert result == {"resident": False, "reaches_host": False}


@pytest.mark.parametrize(("status", "answered"), [(-6, False), (-30, True)])
def test_out_of_memory_is_inconclusive(
    status: int, answered: bool, device: DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise cl.Error("clCreateBuffer", status)

    monkeypatch.setattr(feature_probes, "_run", fails)
    monkeypatch.setattr(feature_probes, "build_text", lambda *_: None)
    result = probe.probe(device, ["half_arithmetic"])
    assert result == ({"half_arithmetic": False} if answered else {})


def test_missing_device_is_inconclusive() -> None:
    gone = replace(NULL_GPU, name="gone", claims={"subgroups": "khr"})
    assert probe.probe(gone, ["subgroups"]) == {}


def test_probe_process_agrees_with_this_process(device: DeviceInfo) -> None:
    if not device.is_cpu or not device.claims["image_texels"]:
        pytest.skip(f"{device.name} has no images, or may crash on them")
    gpu = replace(device, kind="gpu")
    assert probe.probe(gpu, IMAGES) == probe.probe(device, IMAGES)
