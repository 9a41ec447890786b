"""Which trial tells which facts; what could hang or break the driver has a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Collection
from contextlib import suppress

from fourfold.device import IMAGES, WAITING, DeviceInfo, Fact
from fourfold.players.opencl.devices import devices
from fourfold.players.opencl.trials import (
    Facts,
    Unanswered,
    try_dot_products,
    try_half,
    try_images,
    try_matrix_units,
    try_subgroups,
)
from fourfold.players.opencl.waiting_trials import try_waiting

PATIENCE = 30.0  # seconds
_CHILD = """
import sys
ordinal, name, what, *sys.path[:] = sys.argv[1:]
from fourfold.players.opencl.probe import main
main(int(ordinal), name, what)
"""
_IN_A_PROCESS = {"images": try_images, "waiting": try_waiting}


def probe(info: DeviceInfo, names: Collection[str]) -> dict[str, Fact]:
    """What trials tell of these facts and of those that go with them. What a trial did not answer
    is left out: it is no fact.
    """
    found: dict[str, Fact] = {}
    for told, trial in TRIALS.items():
        if not set(told).isdisjoint(names):
            with suppress(Unanswered):
                answer = trial(info)
                found |= {name: answer[name] for name in told if name in answer}
    return found


def _images(info: DeviceInfo) -> Facts:
    """PoCL takes a tenth of a second for it. A GPU's driver may die of it, as NVIDIA's does."""
    if info.is_cpu or not info.claims.get("image_texels"):
        return try_images(info)
    return _ask_process(info, "images")


def _waiting(info: DeviceInfo) -> Facts:
    """The barrier of all groups is written in terms of those GPUs that have matrix units."""
    if not info.claims.get("matrix_units"):
        return dict.fromkeys(WAITING, False)
    return _ask_process(info, "waiting")


TRIALS: dict[tuple[str, ...], Callable[[DeviceInfo], Facts]] = {
    ("half_arithmetic",): try_half,
    ("dot_products",): try_dot_products,
    ("subgroups",): try_subgroups,
    ("matrix_units",): try_matrix_units,
    WAITING: _waiting,
    IMAGES: _images,
}


def _ask_process(info: DeviceInfo, what: str) -> Facts:
    """What a process of its own finds out; one that hangs or dies has not answered."""
    command = [sys.executable, "-c", _CHILD, str(info.ordinal), info.name, what, *sys.path]
    try:
        done = subprocess.run(command, capture_output=True, timeout=PATIENCE, check=True)
        found = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise Unanswered(str(error)) from error
    if not isinstance(found, dict):
        raise Unanswered(f"{found!r} is no answer")
    return found


def main(ordinal: int, name: str, what: str) -> None:
    """Print facts of a device as JSON, if it is the one of that name."""
    info = devices()[ordinal]
    sys.stdout.write(json.dumps(_IN_A_PROCESS[what](info) if info.name == name else {}))
