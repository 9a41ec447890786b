"""Trials in a process of their own, where a driver may hang or die: begun, and asked later."""

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

PATIENCE = 30.0  # seconds
CHILD = """
import sys
module, ordinal, name, what, *sys.path[:] = sys.argv[1:]
__import__(module, fromlist=["main"]).main(int(ordinal), name, what)
"""
Trial = Callable[[DeviceInfo], Iterable[Facts]]


class TrialProcess:
    """A process that makes some trials of a device, one after the other."""

    def __init__(self, info: DeviceInfo, module: str, what: str) -> None:
        """Begins `what` of those trials that `main` of a module makes."""
        command = [sys.executable, "-c", CHILD, module, str(info.ordinal), info.name, what]
        try:
            self._process = subprocess.Popen(
                [*command, *sys.path], stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
        except OSError as error:
            raise Unanswered(str(error)) from error

    def answers(self) -> Facts:
        """What it found out, all of it or as far as it came before it hung or died. Drivers may say
        something, too, before or between: that is no answer.
        """
        try:
            told, complaint = self._process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            told, complaint = self._process.communicate()
        found: dict[str, bool | int | str] = {}
        for line in told.splitlines():
            with suppress(ValueError, TypeError):
                found |= json.loads(line)
        if not found:
            last = (told + complaint).decode(errors="replace").strip().splitlines()[-1:]
            raise Unanswered(f"it ended with {self._process.returncode}, saying {last}")
        return found


def tell_facts(trials: Mapping[str, Trial], ordinal: int, name: str, what: str) -> None:
    """Print facts of a device as JSON, a line for each trial.

    Nobody may be left to end a process that hangs: it does so itself.
    """
    faulthandler.dump_traceback_later(PATIENCE, exit=True)
    leave_native_output()
    info = _device(ordinal, name)
    for facts in () if info is None else trials[what](info):
        sys.stdout.write(f"{json.dumps(facts)}\n")
        sys.stdout.flush()


def _device(ordinal: int, name: str) -> DeviceInfo | None:
    """The device of this name and number; a process may see other devices beside it than the one
    that asked, and then the numbers differ: any of this name will do.
    """
    named = [info for info in devices() if info.name == name]
    return next((info for info in named if info.ordinal == ordinal), next(iter(named), None))
