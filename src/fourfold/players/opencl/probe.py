"""Which trial tells which facts; what could hang or break the driver has a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress

from fourfold.device import IMAGES, UNPROMISED, WAITING, DeviceInfo, Fact
from fourfold.kernel.opencl import probes
from fourfold.log import Log
from fourfold.players.opencl.self_test import open_kernels, try_self_test
from fourfold.players.opencl.trial_process import TrialProcess, tell_facts
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

_IN_A_PROCESS = {
    "images": lambda info: (try_images(info),),
    "waiting": lambda info: (try_waiting(info),),
    "unpromised": try_unpromised,
}
_begun: dict[tuple[DeviceInfo, str], TrialProcess] = {}


def probe(info: DeviceInfo, names: Collection[str]) -> dict[str, Fact]:
    """What trials tell of these facts and of those that go with them. What a trial did not answer
    is left out: it is no fact.
    """
    found: dict[str, Fact] = {}
    for told, trial in TRIALS.items():
        if not set(told).isdisjoint(names):
            try:
                answer = trial(info)
            except Unanswered as error:
                log.warn_once(
                    f"a trial of {', '.join(told)} on {info.name} gave no answer: {error}"
                )
                continue
            found |= {name: answer[name] for name in told if name in answer}
    return found


def begin_probe(info: DeviceInfo, names: Collection[str]) -> None:
    """Begin with the trials of a CPU that have a process of their own, to be asked for soon."""
    if info.is_cpu and not set(_BEHAVIOUR).isdisjoint(names):
        with suppress(Unanswered):  # who asks for the answer tells of it
            _begin(info, "unpromised")


def _behaviour(info: DeviceInfo) -> Facts:
    """Only on a CPU has anybody use for what OpenCL does not promise."""
    if info.is_cpu:
        return _ask_process(info, "unpromised")
    return {**dict.fromkeys(UNPROMISED, False), **_self_test(info)}


def _self_test(info: DeviceInfo) -> Facts:
    return try_self_test(info, open_kernels(info, probes.SELF_TEST))


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


def _begin(info: DeviceInfo, what: str) -> TrialProcess:
    if (info, what) not in _begun:
        _begun[info, what] = TrialProcess(info, __name__, what)
    return _begun[info, what]


def _ask_process(info: DeviceInfo, what: str) -> Facts:
    """What a process of its own finds out."""
    process = _begin(info, what)
    del _begun[info, what]
    return process.answers()


def main(ordinal: int, name: str, what: str) -> None:
    """Print facts of a device as JSON, if it is the one of that name."""
    tell_facts(_IN_A_PROCESS, ordinal, name, what)
