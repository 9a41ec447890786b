"""Facts that are tried: one trial leaves what others found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from fourfold.device import DeviceInfo
from fourfold.players.null import NULL_GPU
from fourfold.players.probe import with_images, with_subgroups


@pytest.mark.parametrize("trial", [with_images, with_subgroups])
def test_a_trial_keeps_the_other_facts(trial: Callable[[DeviceInfo], DeviceInfo]) -> None:
    for spelling in ("khr", "ptx"):  # the same device, by what devices are told apart by
        assert trial(replace(NULL_GPU, dot_products=spelling)).dot_products == spelling
