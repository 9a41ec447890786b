"""Facts that are tried: one trial leaves what others found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from fourfold.device import DeviceInfo
from fourfold.players.null import NULL_GPU
from fourfold.players.opencl import probe
from fourfold.players.opencl.probe import with_images, with_subgroups


@pytest.mark.parametrize("trial", [with_images, with_subgroups])
def test_a_trial_keeps_the_other_facts(trial: Callable[[DeviceInfo], DeviceInfo]) -> None:
    for spelling in ("khr", "ptx"):  # the same device, by what devices are told apart by
        assert trial(replace(NULL_GPU, dot_products=spelling)).dot_products == spelling


@pytest.mark.parametrize("child", ["import os; os.abort()", "print('[]')", "raise SystemExit(1)"])
def test_a_driver_that_dies_of_a_trial_takes_nobody_with_it(
    child: str, device: DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "_CHILD", child)
    found = probe.with_images(replace(device, kind="gpu", prefers_images=True))
    assert (found.image_texels, found.prefers_images) == (0, False)


def test_a_child_finds_what_this_process_finds(device: DeviceInfo) -> None:
    if device.is_cpu and device.image_texels:
        gpu = probe.with_images(replace(device, kind="gpu"))
        assert replace(gpu, kind="cpu") == probe.with_images(device)
        assert gpu.image_texels == device.image_texels
