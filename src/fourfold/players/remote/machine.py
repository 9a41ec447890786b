"""Another machine: a private folder there with the player in it, and nothing left of it after."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shlex
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, NoReturn

from fourfold.config import Config
from fourfold.errors import DeviceError, FourfoldError
from fourfold.native import BuildTarget, build_player, find_target_machine, host_target
from fourfold.players.cleanup import cleanup_on_error
from fourfold.players.remote.link import Answer, Link

PLAYER = "fourfold-run"
_NO_OPENCL = 3  # the player's exit status
_NOT_RUNNABLE = (126, 127)  # a shell's
_numbers = count()
_in_use: set[str] = set()  # names of folders that this process has open
# The first place that takes the folder: where Android lets programs run, or as usual.
_OPEN = """umask 077
for base in /data/local/tmp "${{TMPDIR:-/tmp}}" "$HOME"; do
  if mkdir "$base/{name}" 2>/dev/null; then echo "folder=$base/{name}"; break; fi
done
for old in "$base"/{family}-*; do if [ -d "$old" ]; then echo "old=$old"; fi; done
echo "machine=$(uname -m)"
echo "abi=$(getprop ro.product.cpu.abi 2>/dev/null)"
"""


class Machine:
    """A phone or a board that is reached by a link."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.folder = ""
        self._files = count()
        with cleanup_on_error(self.close):
            facts = self._open_folder()
            self.target = self._find_target(facts)
            self._send_player()

    def _open_folder(self) -> dict[str, str]:
        name = f"{_family()}-{os.getpid()}-{next(_numbers)}"
        said = self.link.check(_OPEN.format(name=name, family=_family()), "making a folder")
        facts = dict(line.split("=", 1) for line in said.splitlines() if "=" in line)
        if "folder" not in facts:
            self.link.fail("making a folder", said)
        self.folder = facts["folder"]
        _in_use.add(name)
        old = [line[len("old=") :] for line in said.splitlines() if line.startswith("old=")]
        self._remove([path for path in old if _is_abandoned(path)])
        return facts

    def _find_target(self, facts: dict[str, str]) -> BuildTarget:
        abi, machine = facts.get("abi", ""), facts.get("machine", "")
        target = find_target_machine(abi or machine, "android" if abi else "linux")
        if target is None:
            raise DeviceError(
                f"{self.link.name} is no machine that the player is compiled for",
                f"its processor is called '{abi or machine}'",
                "see 'fourfold player build --help' for those that there are",
            )
        return target

    def _send_player(self) -> None:
        """This machine's own kind is compiled by its own compiler, which is there more often."""
        cache = Config.from_environment().cache
        made = build_player(None if self.target == host_target() else self.target, cache)
        try:
            self.link.push(made, self.path(PLAYER))
        finally:
            if cache is None:
                made.unlink(missing_ok=True)
                made.parent.rmdir()
        self.link.check(f"chmod 700 {self.path(PLAYER)}", "making the player a program")

    def path(self, name: str) -> str:
        """Where a file of this name is, there."""
        return f"{self.folder}/{name}"

    def new_name(self, suffix: str = "") -> str:
        """A name in the folder that no other file has."""
        return f"{next(self._files)}{suffix}"

    def command(self, *arguments: str) -> str:
        """What runs the player there, in its folder."""
        words = " ".join(shlex.quote(word) for word in arguments)
        return f"cd {shlex.quote(self.folder)} && exec ./{PLAYER} {words}"

    def devices(self) -> list[dict[str, Any]]:
        """What the drivers there say of their devices."""
        answer = self.link.run(f"({self.command('--probe', '--json')})")
        told = read_lines(answer.output)
        if answer.status == _NO_OPENCL:
            why = str(told[-1].get("error", "")) if told else "it has no OpenCL library"
            fix = "install the OpenCL driver of its GPU; phones bring it or have none"
            raise DeviceError(f"{self.link.name} has no OpenCL device", why, fix)
        if answer.status:
            self.not_run(answer)
        return [row for row in told if "device" in row]

    def not_run(self, answer: Answer) -> NoReturn:
        """The player did not do what it was asked for."""
        said = next((str(row["error"]) for row in read_lines(answer.output) if "error" in row), "")
        if answer.status in _NOT_RUNNABLE:
            lines = answer.output.strip().splitlines() or ["it said nothing"]
            why = f"{lines[-1]}, as a program for {self.target.name}"
            fix = "let programs run in its folder for temporary files (TMPDIR), or report this"
            raise DeviceError(f"the player does not run on {self.link.name}", why, fix)
        self.link.fail("running the player", said or answer.output)

    def send(self, content: bytes | memoryview, suffix: str = "") -> str:
        """Put some bytes into a file there; gives its name."""
        name = self.new_name(suffix)
        with _local_file() as path:
            path.write_bytes(content)
            self.link.push(path, self.path(name))
        return name

    def fetch(self, name: str) -> bytes:
        """The bytes of a file there."""
        with _local_file() as path:
            self.link.pull(self.path(name), path)
            return path.read_bytes()

    def remove(self, *names: str) -> None:
        self._remove([self.path(name) for name in names])

    def _remove(self, paths: list[str]) -> None:
        if paths:
            self.link.run(f"rm -rf {' '.join(map(shlex.quote, paths))}")

    def close(self) -> None:
        """Leave nothing behind. Where the cable is out, the next one who comes does that."""
        with suppress(FourfoldError):
            if self.folder:
                self._remove([self.folder])
        with suppress(FourfoldError):
            self.link.close()
        _in_use.discard(self.folder.rpartition("/")[2])
        self.folder = ""


def read_lines(output: str) -> list[dict[str, Any]]:
    """The JSON objects that the player tells, one a line; drivers may say something between."""
    found = []
    for line in output.splitlines():
        if line.startswith("{"):
            with suppress(ValueError):
                found.append(json.loads(line))
    return found


@contextmanager
def _local_file() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="fourfold-") as folder:
        yield Path(folder) / "file"


def _family() -> str:
    """How folders of this user of this machine begin."""
    user = f"{platform.node()} {os.path.expanduser('~')}"
    return f"fourfold-{hashlib.blake2b(user.encode(), digest_size=4).hexdigest()}"


def _is_abandoned(folder: str) -> bool:
    """Whether who made a folder there is gone: a process here, or a part of this one."""
    name = folder.rpartition("/")[2]
    number = name.removeprefix(f"{_family()}-").partition("-")[0]
    if not number.isdecimal():
        return False
    if int(number) == os.getpid():
        return name not in _in_use
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False
