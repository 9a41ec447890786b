"""Interpreted devices, with the facts of another one, real or made up."""

from __future__ import annotations

from dataclasses import replace

from fourfold.backends.null import NULL_GPU
from fourfold.device import PROBED, DeviceInfo

API, LANGUAGE, VERSION = "interpret", "tree", "1.0"


def device(like: DeviceInfo) -> DeviceInfo:
    """Return an interpreted device for which plans are compiled as for another one.

    All of its facts count as known: nothing is probed.
    """
    return replace(
        like,
        name=f"{like.name}, interpreted",
        platform="fourfold",
        api=API,
        language=LANGUAGE,
        language_version=VERSION,
        probed=PROBED,
        claims={},
        uuid="",
        others=(),
        ordinal=0,
    )


PLAIN_GPU = replace(device(NULL_GPU), name="interpreter", version="kernel trees")
