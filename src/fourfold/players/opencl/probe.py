"""Probes of an OpenCL device; those that could hang or crash the driver run in another process."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress

from fourfold.device import IMAGES, UNPROMISED, WAITING, DeviceInfo, Fact
from fourfold.kernel.opencl import probes
from fourfold.log import Log
from fourfold.players.opencl.self_test import open_kernels, try_self_test
from fourfold.players.opencl.trial_process import TrialProcess, print_facts
from fourfold.players.opencl.trials import (
    Facts,
    Unanswered,
    try_dot_products,
    try_half,
    try_images,
    try_matrix_units,
    try_subgroups,
)
from fourfold.players.opencl.unpromised_trials import try_unpromised
from fourfold.players.opencl.waiting_trials import try_waiting

log = Log("players.opencl")

_SEPARATE_PROBES = {
    "images": lambda info: (try_images(info),),
    "waiting": lambda info: (try_waiting(info),),
    "unpromised": try_unpromised,
}
_started: dict[tuple[DeviceInfo, str], TrialProcess] = {}


def probe(info: DeviceInfo, names: Collection[str]) -> dict[str, Fact]:
    """Probe these facts, and related ones. Facts whose probe did not answer are left out."""
    facts: dict[str, Fact] = {}
    for names_, trial in TRIALS.items():
        if not set(names_).isdisjoint(names):
            try:
                answer = trial(info)
            except Unanswered as error:
                log.warn_once(
                    f"a probe of {', '.join(names_)} on {info.name} did not answer: {error}"
                )
                continue
            facts |= {name: answer[name] for name in names_ if name in answer}
    return facts


def begin_probe(info: DeviceInfo, names: Collection[str]) -> None:
    """Start the probes of a CPU that run in another process; their answers are needed soon."""
    if info.is_cpu and not set(_BEHAVIOUR).isdisjoint(names):
        with suppress(Unanswered):  # reported when the answer is needed
            _start(info, "unpromised")


def _behaviour(info: DeviceInfo) -> Facts:
    """Probe features beyond the OpenCL standard only on a CPU, where they are used."""
    if info.is_cpu:
        return _ask_process(info, "unpromised")
    return {**dict.fromkeys(UNPROMISED, False), **_self_test(info)}


def _self_test(info: DeviceInfo) -> Facts:
    return try_self_test(info, open_kernels(info, probes.SELF_TEST))


def _images(info: DeviceInfo) -> Facts:
    """Probe images. PoCL needs a tenth of a second; a GPU driver may crash, as NVIDIA's does."""
    if info.is_cpu or not info.claims.get("image_texels"):
        return try_images(info)
    return _ask_process(info, "images")


def _waiting(info: DeviceInfo) -> Facts:
    """Probe waiting only on GPUs with matrix units, which the barrier of all groups
    is written for.
    """
    if not info.claims.get("matrix_units"):
        return dict.fromkeys(WAITING, False)
    return _ask_process(info, "waiting")


_BEHAVIOUR = ("self_test", *UNPROMISED)
TRIALS: dict[tuple[str, ...], Callable[[DeviceInfo], Facts]] = {
    ("half_arithmetic",): try_half,
    ("dot_products",): try_dot_products,
    ("subgroups",): try_subgroups,
    ("matrix_units",): try_matrix_units,
    _BEHAVIOUR: _behaviour,
    WAITING: _waiting,
    IMAGES: _images,
}


def _start(info: DeviceInfo, what: str) -> TrialProcess:
    if (info, what) not in _started:
        _started[info, what] = TrialProcess(info, __name__, what)
    return _started[info, what]


def _ask_process(info: DeviceInfo, what: str) -> Facts:
    """Return the facts that another process determines."""
    process = _start(info, what)
    del _started[info, what]
    return process.answers()


def main(ordinal: int, name: str, what: str) -> None:
    """Print facts of a device as JSON, if it has this name."""
    print_facts(_SEPARATE_PROBES, ordinal, name, what)
