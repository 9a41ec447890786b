"""Probes of an OpenCL device; those that could hang or crash the driver run in another process."""

from __future__ import annotations

import faulthandler
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress

from fourfold.backends.opencl.behavior_probes import (
    open_kernels,
    try_self_test,
    try_unpromised,
    try_waiting,
)
from fourfold.backends.opencl.devices import devices
from fourfold.backends.opencl.feature_probes import (
    Facts,
    Unanswered,
    try_dot_products,
    try_half,
    try_images,
    try_matrix_units,
    try_subgroups,
)
from fourfold.codegen.opencl import probes
from fourfold.device import IMAGES, UNPROMISED, WAITING, DeviceInfo, Fact
from fourfold.errors import DeviceError
from fourfold.support.log import Log
from fourfold.support.log.native_output import stop_capturing_native_output

TIMEOUT_S = 30.0
CHILD = """
import sys
module, ordinal, name, what, *sys.path[:] = sys.argv[1:]
__import__(module, fromlist=["main"]).main(int(ordinal), name, what)
"""
Probe = Callable[[DeviceInfo], Iterable[Facts]]
log = Log("backends.opencl")
_SEPARATE_PROBES = {
    "images": lambda info: (try_images(info),),
    "waiting": lambda info: (try_waiting(info),),
    "unpromised": try_unpromised,
}
_started: dict[tuple[DeviceInfo, str], ProbeProcess] = {}
_BEHAVIOUR = ("self_test", *UNPROMISED)
_CRASHES = ("SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGSEGV")
_MAX_LAST_LINES = 3


class Crashed(Unanswered):
    """The driver ended the process of a probe before it had an answer."""


class ProbeProcess:
    """A process that runs some probes of a device, one after the other."""

    def __init__(self, info: DeviceInfo, module: str, what: str) -> None:
        """Start the probes named `what` with the function `main` of a module."""
        command = [sys.executable, "-c", CHILD, module, str(info.ordinal), info.name, what]
        try:
            self._process = subprocess.Popen(
                [*command, *sys.path], stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
        except OSError as error:
            raise Unanswered(str(error)) from error

    def answers(self) -> Facts:
        """Return the facts determined so far, even if the process hung or crashed.

        Other output of drivers is ignored.
        """
        try:
            output, errors = self._process.communicate(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            output, errors = self._process.communicate()
        facts: dict[str, bool | int | str] = {}
        for line in output.splitlines():
            with suppress(ValueError, TypeError):
                facts |= json.loads(line)
        if not facts:
            raise self._failure((output + errors).decode(errors="replace").strip().splitlines())
        return facts

    def _failure(self, lines: list[str]) -> Unanswered:
        status = self._process.returncode
        if -status in (getattr(signal, name, 0) for name in _CRASHES):
            words = " / ".join(lines[-_MAX_LAST_LINES:]) or "it printed nothing"
            return Crashed(f"{signal.Signals(-status).name}: {words}")
        return Unanswered(f"the probe exited with {status}: {lines[-1:]}")


def print_facts(probes_by_name: Mapping[str, Probe], ordinal: int, name: str, what: str) -> None:
    """Print facts of a device as JSON, one line per probe.

    A process that hangs ends itself, since its parent may be gone.
    """
    faulthandler.dump_traceback_later(TIMEOUT_S, exit=True)
    stop_capturing_native_output()
    info = _device(ordinal, name)
    for facts in () if info is None else probes_by_name[what](info):
        sys.stdout.write(f"{json.dumps(facts)}\n")
        sys.stdout.flush()


def _device(ordinal: int, name: str) -> DeviceInfo | None:
    """Return the device of this name and number, or any of this name: a process may see other
    devices than its parent, so that the numbers differ.
    """
    named = [info for info in devices() if info.name == name]
    return next((info for info in named if info.ordinal == ordinal), next(iter(named), None))


def probe(info: DeviceInfo, names: Collection[str]) -> dict[str, Fact]:
    """Probe these facts, and related ones. Facts whose probe did not answer are left out."""
    facts: dict[str, Fact] = {}
    for fact_names, determine in PROBES.items():
        if not set(fact_names).isdisjoint(names):
            try:
                answer = determine(info)
            except Unanswered as error:
                log.warn_once(
                    f"a probe of {', '.join(fact_names)} on {info.name} did not answer: {error}"
                )
                continue
            facts |= {name: answer[name] for name in fact_names if name in answer}
    return facts


def begin_probe(info: DeviceInfo, names: Collection[str]) -> None:
    """Start the probes of a CPU that run in another process; their answers are needed soon."""
    if info.is_cpu and not set(_BEHAVIOUR).isdisjoint(names):
        with suppress(Unanswered):  # reported when the answer is needed
            _start(info, "unpromised")


def _behaviour(info: DeviceInfo) -> Facts:
    """Probe features beyond the OpenCL standard only on a CPU, where they are used.

    Raises a DeviceError if the driver of a CPU crashes in the self-test, which builds its first
    kernels: it would crash this process as well.
    """
    if info.is_cpu:
        try:
            return _ask_process(info, "unpromised")
        except Crashed as error:
            what = f"the driver of {info.name} crashes when it builds kernels"
            why = f"it ended the process of a test with {error}"
            fix = "check that its cache folder can be written, update it, or use device='cpu'"
            raise DeviceError(what, why, fix) from error
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


PROBES: dict[tuple[str, ...], Callable[[DeviceInfo], Facts]] = {
    ("half_arithmetic",): try_half,
    ("dot_products",): try_dot_products,
    ("subgroups",): try_subgroups,
    ("matrix_units",): try_matrix_units,
    _BEHAVIOUR: _behaviour,
    WAITING: _waiting,
    IMAGES: _images,
}


def _start(info: DeviceInfo, what: str) -> ProbeProcess:
    if (info, what) not in _started:
        _started[info, what] = ProbeProcess(info, __name__, what)
    return _started[info, what]


def _ask_process(info: DeviceInfo, what: str) -> Facts:
    """Return the facts that another process determines."""
    process = _start(info, what)
    del _started[info, what]
    return process.answers()


def main(ordinal: int, name: str, what: str) -> None:
    """Print facts of a device as JSON, if it has this name."""
    print_facts(_SEPARATE_PROBES, ordinal, name, what)
