"""Probes in another process, where a driver may hang or crash: started, and read later."""

from __future__ import annotations

import faulthandler
import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from fourfold.device import DeviceInfo
from fourfold.log.native_output import leave_native_output
from fourfold.players.opencl.devices import devices
from fourfold.players.opencl.trials import Facts, Unanswered

TIMEOUT_S = 30.0
CHILD = """
import sys
module, ordinal, name, what, *sys.path[:] = sys.argv[1:]
__import__(module, fromlist=["main"]).main(int(ordinal), name, what)
"""
Trial = Callable[[DeviceInfo], Iterable[Facts]]


class TrialProcess:
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
            last = (output + errors).decode(errors="replace").strip().splitlines()[-1:]
            raise Unanswered(f"the probe exited with {self._process.returncode}: {last}")
        return facts


def print_facts(trials: Mapping[str, Trial], ordinal: int, name: str, what: str) -> None:
    """Print facts of a device as JSON, one line per probe.

    A process that hangs ends itself, since its parent may be gone.
    """
    faulthandler.dump_traceback_later(TIMEOUT_S, exit=True)
    leave_native_output()
    info = _device(ordinal, name)
    for facts in () if info is None else trials[what](info):
        sys.stdout.write(f"{json.dumps(facts)}\n")
        sys.stdout.flush()


def _device(ordinal: int, name: str) -> DeviceInfo | None:
    """Return the device of this name and number, or any of this name: a process may see other
    devices than its parent, so that the numbers differ.
    """
    named = [info for info in devices() if info.name == name]
    return next((info for info in named if info.ordinal == ordinal), next(iter(named), None))
