"""Trials of devices: what they tell, that they may fail, and what is no answer."""

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


def test_every_fact_has_a_trial() -> None:
    assert {name for told in probe.PROBES for name in told} == set(PROBED)


def test_trials_are_built_as_plans_are() -> None:
    """PoCL 7.1 reads images in OpenCL C 3.0, and not in 1.2, which plans are written in."""
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


def test_trials_tell_facts_of_the_right_type(device: DeviceInfo) -> None:
    found = OpenCLBackend().probe(device, PROBED)
    assert set(found) <= set(PROBED)
    assert set(PROBED) - set(found) <= set(IMAGES)  # some drivers die of images: that is no answer
    assert all(is_fact(name, value) for name, value in found.items())


def test_only_what_is_wanted_is_tried(device: DeviceInfo, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = ("subgroups",)
    others = {told: None for told in probe.PROBES if told != wanted}
    for told in others:
        monkeypatch.setitem(probe.PROBES, told, None)  # type: ignore[arg-type]
    assert set(probe.probe(device, wanted)) == set(wanted)


def test_what_is_not_claimed_is_absent_without_a_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feature_probes, "succeeds", None)
    monkeypatch.setattr(probe, "_ask_process", None)
    names = [name for name in PROBED if name != "half_arithmetic"]
    assert not any(probe.probe(NULL_GPU, names).values())


@pytest.mark.parametrize("child", ["import os; os.abort()", "print('[]')", "raise SystemExit(1)"])
@pytest.mark.parametrize("names", [IMAGES, WAITING])
def test_a_driver_that_dies_of_a_trial_has_not_answered(
    child: str, names: tuple[str, ...], device: DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "CHILD", child)
    assert probe.probe(like_a_gpu(device), names) == {}


def test_a_trial_that_takes_too_long_has_not_answered(
    device: DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "CHILD", "import time; time.sleep(60)")
    monkeypatch.setattr(probe, "TIMEOUT_S", 0.2)
    assert probe.probe(like_a_gpu(device), WAITING) == {}


def test_a_trial_that_says_no_has_answered(
    device: DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = 'print(\'{"resident": false, "reaches_host": false, "name": 7}\')'
    monkeypatch.setattr(probe, "CHILD", answer)
    found = probe.probe(like_a_gpu(device), ["resident"])
    assert found == {"resident": False, "reaches_host": False}


def test_the_process_may_see_other_devices_beside(device: DeviceInfo) -> None:
    """Then its numbers are others, and a fact lost for it would cost the fastest kernels."""
    elsewhere = replace(device, ordinal=device.ordinal + 5)
    found = probe.ProbeProcess(elsewhere, probe.__name__, "unpromised").answers()
    assert found["self_test"] == ""


def test_kernels_that_do_not_build_are_an_answer(device: DeviceInfo) -> None:
    """The barrier of all groups is written for other devices than a CPU."""
    if not device.is_cpu:
        pytest.skip("a GPU may understand it")
    found = probe.probe(like_a_gpu(device), WAITING)
    assert found == {"resident": False, "reaches_host": False}


@pytest.mark.parametrize(("status", "answered"), [(-6, False), (-30, True)])
def test_a_device_without_memory_has_not_answered(
    status: int, answered: bool, device: DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise cl.Error("clCreateBuffer", status)

    monkeypatch.setattr(feature_probes, "_run", fails)
    monkeypatch.setattr(feature_probes, "build_text", lambda *_: None)
    found = probe.probe(device, ["half_arithmetic"])
    assert found == ({"half_arithmetic": False} if answered else {})


def test_a_device_that_is_gone_has_not_answered() -> None:
    gone = replace(NULL_GPU, name="gone", claims={"subgroups": "khr"})
    assert probe.probe(gone, ["subgroups"]) == {}


def test_a_child_finds_what_this_process_finds(device: DeviceInfo) -> None:
    if not device.is_cpu or not device.claims["image_texels"]:
        pytest.skip(f"{device.name} has no images, or may die of them")
    gpu = replace(device, kind="gpu")
    assert probe.probe(gpu, IMAGES) == probe.probe(device, IMAGES)
