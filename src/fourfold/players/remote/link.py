"""A way to another machine: commands run there, files go to and fro, by a program of this one."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from typing import NamedTuple, NoReturn

from fourfold.errors import DeviceError, InputError
from fourfold.players.connections import ConnectionLost

PATIENCE = 120.0  # seconds that a command or a copy may take; building kernels takes longest
_MARK = "fourfold-status="
_STATUS = re.compile(rf"{_MARK}(\d+)\s*$")
_RESUME = "what was found until then is kept: type the same command again"


class Answer(NamedTuple):
    """What a command said, and its exit status."""

    output: str
    status: int


class Link:
    """A way to one machine, by a command such as adb or ssh."""

    api: str  # how addresses begin

    def __init__(self, host: str) -> None:
        self.host = host

    @property
    def name(self) -> str:
        return f"{self.api}:{self.host}"

    def shell(self, command: str) -> list[str]:
        """What runs a command of the other machine's shell, here."""
        raise NotImplementedError

    def push(self, path: str | os.PathLike[str], remote: str) -> None:
        """Copy a file there."""
        raise NotImplementedError

    def pull(self, remote: str, path: str | os.PathLike[str]) -> None:
        """Copy a file from there."""
        raise NotImplementedError

    def explain(self, said: str) -> tuple[str, str]:
        """Why a failed call failed, by what its program said, and what mends it."""
        raise NotImplementedError

    def close(self) -> None:
        """Let go of what the way itself holds here."""

    def run(self, command: str, patience: float = PATIENCE) -> Answer:
        """Run a command there. Its status comes in its output: adb of old phones tells none."""
        done = self.call(self.shell(f"{{ {command}\n}} 2>&1 </dev/null; echo {_MARK}$?"), patience)
        found = _STATUS.search(done.stdout)
        if found is None:
            self.lost(done.stderr + done.stdout)
        return Answer(done.stdout[: found.start()].replace("\r\n", "\n"), int(found[1]))

    def check(self, command: str, doing: str) -> str:
        """The same, where anything but success is a DeviceError."""
        answer = self.run(command)
        if answer.status:
            self.fail(doing, answer.output)
        return answer.output

    def open(self, command: str) -> subprocess.Popen[str]:
        """Begin a command there that is spoken to: lines in, lines out."""
        try:
            return subprocess.Popen(
                self.shell(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                bufsize=1,
            )
        except OSError as error:
            self.lost(str(error))

    def call(
        self, command: Sequence[str], patience: float = PATIENCE, source: int | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a program of this machine that leads to the other one."""
        try:
            return subprocess.run(
                command,
                stdin=subprocess.DEVNULL if source is None else source,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                timeout=patience,
            )
        except subprocess.TimeoutExpired:
            self.lost(f"there was no answer for {patience:.0f} seconds")
        except OSError as error:
            self.lost(str(error))

    def lost(self, said: str) -> NoReturn:
        """The machine is not to be reached; why, its program said."""
        why, fix = self.explain(said)
        raise ConnectionLost(f"{self.name} cannot be reached", why, f"{fix}; {_RESUME}")

    def fail(self, doing: str, said: str) -> NoReturn:
        """The machine is there, but something does not work."""
        why = last_line(said)
        fix = f"look at it on {self.name}, and type the same command again"
        if "no space left" in said.lower():
            fix = f"make room on {self.name}: the player and the model's file must fit"
        raise DeviceError(f"{doing} on {self.name} failed", why, fix)


def last_line(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"


def find_program(name: str, places: Sequence[str], fix: str) -> str:
    """A program on the path, or in one of these places."""
    found = shutil.which(name) or next((path for path in places if os.path.isfile(path)), None)
    if found is None:
        raise InputError(f"the command {name} is not there", "it is not on the path", fix)
    return found
