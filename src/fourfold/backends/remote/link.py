"""Links to other machines: run commands and copy files with a local program such as adb or ssh."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from typing import NamedTuple, NoReturn

from fourfold.backends.connections import ConnectionLost
from fourfold.errors import DeviceError, InputError

TIMEOUT_S = 120.0  # for a command or a copy; building kernels takes longest
_MARK = "fourfold-status="
_STATUS = re.compile(rf"{_MARK}(\d+)\s*$")
_RESUME = "intermediate results are cached: run the same command again"


class Answer(NamedTuple):
    """Output and exit status of a command."""

    output: str
    status: int


class Link:
    """A link to one machine through a command such as adb or ssh."""

    api: str  # prefix of addresses

    def __init__(self, host: str) -> None:
        self.host = host

    @property
    def name(self) -> str:
        return f"{self.api}:{self.host}"

    def shell(self, command: str) -> list[str]:
        """Return the local command that runs a command in the other machine's shell."""
        raise NotImplementedError

    def push(self, path: str | os.PathLike[str], remote: str) -> None:
        """Copy a file to the machine."""
        raise NotImplementedError

    def pull(self, remote: str, path: str | os.PathLike[str]) -> None:
        """Copy a file from the machine."""
        raise NotImplementedError

    def explain(self, said: str) -> tuple[str, str]:
        """Return why a call failed, based on its output, and the fix."""
        raise NotImplementedError

    def close(self) -> None:
        """Release local resources of the link."""

    def run(self, command: str, timeout_s: float = TIMEOUT_S) -> Answer:
        """Run a command. Its status is part of its output, since adb of old phones does not report
        it.
        """
        done = self.call(self.shell(f"{{ {command}\n}} 2>&1 </dev/null; echo {_MARK}$?"), timeout_s)
        match = _STATUS.search(done.stdout)
        if match is None:
            self.lost(done.stderr + done.stdout)
        return Answer(done.stdout[: match.start()].replace("\r\n", "\n"), int(match[1]))

    def check(self, command: str, doing: str) -> str:
        """Run a command and return its output; raises a DeviceError if it fails."""
        answer = self.run(command)
        if answer.status:
            self.fail(doing, answer.output)
        return answer.output

    def open(self, command: str) -> subprocess.Popen[str]:
        """Start an interactive command: lines in, lines out."""
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
        self, command: Sequence[str], timeout_s: float = TIMEOUT_S, source: int | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a local program that connects to the machine."""
        try:
            return subprocess.run(
                command,
                stdin=subprocess.DEVNULL if source is None else source,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                timeout=timeout_s,
            )
        except subprocess.TimeoutExpired:
            self.lost(f"no answer within {timeout_s:.0f} seconds")
        except OSError as error:
            self.lost(str(error))

    def lost(self, said: str) -> NoReturn:
        """Raise a ConnectionLost; `said` is the output of the program."""
        why, fix = self.explain(said)
        raise ConnectionLost(f"{self.name} cannot be reached", why, f"{fix}; {_RESUME}")

    def fail(self, doing: str, said: str) -> NoReturn:
        """Raise a DeviceError for a failed action on a machine that can be reached."""
        why = last_line(said)
        fix = f"check it on {self.name}, and run the same command again"
        if "no space left" in said.lower():
            fix = f"free disk space on {self.name} for the player and the model's file"
        raise DeviceError(f"{doing} on {self.name} failed", why, fix)


def last_line(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[-1] if lines else "there was no output"


def find_program(name: str, candidates: Sequence[str], fix: str) -> str:
    """Return the path of a program on PATH, or one of these files."""
    path = shutil.which(name) or next(filter(os.path.isfile, candidates), None)
    if path is None:
        raise InputError(f"the command {name} is not installed", "it is not on PATH", fix)
    return path
