"""Another machine: a private folder with the C player, removed afterwards."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shlex
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, NoReturn

from fourfold.backends.cleanup import cleanup_on_error
from fourfold.backends.native import BuildTarget, build_player, find_target_machine, host_target
from fourfold.backends.remote.answers import read_object, unusable
from fourfold.backends.remote.link import Answer, Link
from fourfold.config import Config
from fourfold.errors import DeviceError, FourfoldError
from fourfold.plan.container import open_regular
from fourfold.store.folder import private_folder

PLAYER = "fourfold-run"
_NO_OPENCL = 3  # the player's exit status
_NOT_RUNNABLE = (126, 127)  # exit statuses of a shell
_numbers = count()
_in_use: set[str] = set()  # names of folders that this process uses
# Use the first writable folder: where Android allows programs to run, or the usual one.
_OPEN = """umask 077
for base in /data/local/tmp "${{TMPDIR:-/tmp}}" "$HOME"; do
  if mkdir "$base/{name}" 2>/dev/null; then echo "folder=$base/{name}"; break; fi
done
for old in "$base"/{family}-*; do if [ -d "$old" ]; then echo "old=$old"; fi; done
echo "machine=$(uname -m)"
echo "abi=$(getprop ro.product.cpu.abi 2>/dev/null)"
"""


class Machine:
    """A phone or a board that is reached over a link."""

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
        output = self.link.check(_OPEN.format(name=name, family=_family()), "creating a folder")
        facts = dict(line.split("=", 1) for line in output.splitlines() if "=" in line)
        if "folder" not in facts:
            self.link.fail("creating a folder", output)
        self.folder = facts["folder"]
        _in_use.add(name)
        old = [line[len("old=") :] for line in output.splitlines() if line.startswith("old=")]
        self._remove([path for path in old if _is_abandoned(path)])
        return facts

    def _find_target(self, facts: dict[str, str]) -> BuildTarget:
        abi, machine = facts.get("abi", ""), facts.get("machine", "")
        target = find_target_machine(abi or machine, "android" if abi else "linux")
        if target is None:
            raise DeviceError(
                f"{self.link.name} is not a supported machine",
                f"its processor is '{abi or machine}'",
                "see 'fourfold player build --help' for supported machines",
            )
        return target

    def _send_player(self) -> None:
        """Compile and copy the player. The system compiler is used if the machine is
        like this one.
        """
        cache = private_folder(Config.from_environment().cache)
        executable = build_player(None if self.target == host_target() else self.target, cache)
        try:
            self.link.push(executable, self.path(PLAYER))
        finally:
            if cache is None:
                executable.unlink(missing_ok=True)
                executable.parent.rmdir()
        player = shlex.quote(self.path(PLAYER))
        self.link.check(f"chmod 700 {player}", "making the player executable")

    def path(self, name: str) -> str:
        """Return the path of a file on the machine."""
        return f"{self.folder}/{name}"

    def new_name(self, suffix: str = "") -> str:
        """Return an unused file name in the folder."""
        return f"{next(self._files)}{suffix}"

    def command(self, *arguments: str) -> str:
        """Return the shell command that runs the player in its folder."""
        words = " ".join(shlex.quote(word) for word in arguments)
        return f"cd {shlex.quote(self.folder)} && exec ./{PLAYER} {words}"

    def devices(self) -> list[dict[str, Any]]:
        """Return the device descriptions of the drivers."""
        answer = self.link.run(f"({self.command('--probe', '--json')})")
        rows = read_lines(answer.output)
        if answer.status == _NO_OPENCL:
            why = error_text(rows[-1]) if rows else "it has no OpenCL library"
            fix = (
                "install the OpenCL driver of its GPU; on phones it is preinstalled or unavailable"
            )
            raise DeviceError(f"{self.link.name} has no OpenCL device", why, fix)
        if answer.status:
            self.not_run(answer)
        return [row for row in rows if "device" in row]

    def not_run(self, answer: Answer) -> NoReturn:
        """Raise an error for a failed run of the player."""
        said = next((error_text(row) for row in read_lines(answer.output) if "error" in row), "")
        if answer.status in _NOT_RUNNABLE:
            lines = answer.output.strip().splitlines() or ["there was no output"]
            why = f"{lines[-1]} (compiled for {self.target.name})"
            fix = "allow executables in its folder for temporary files (TMPDIR), or report this"
            raise DeviceError(f"the player does not run on {self.link.name}", why, fix)
        self.link.fail("running the player", said or answer.output)

    def send(self, content: bytes | memoryview, suffix: str = "") -> str:
        """Copy some bytes into a file on the machine; returns its name."""
        name = self.new_name(suffix)
        with _local_file() as path:
            path.write_bytes(content)
            self.link.push(path, self.path(name))
        return name

    def fetch(self, name: str) -> bytes:
        """Return the bytes of a file on the machine."""
        with _local_file() as path:
            self.link.pull(self.path(name), path)
            try:
                with open_regular(path) as file:
                    return file.read()
            except OSError as error:
                raise unusable(self.link.name, f"'{name}' cannot be read: {error}") from error

    def remove(self, *names: str) -> None:
        self._remove([self.path(name) for name in names])

    def _remove(self, paths: list[str]) -> None:
        if paths:
            self.link.run(f"rm -rf {' '.join(map(shlex.quote, paths))}")

    def close(self) -> None:
        """Remove all files. If the machine cannot be reached, the next process does so."""
        with suppress(FourfoldError):
            if self.folder:
                self._remove([self.folder])
        with suppress(FourfoldError):
            self.link.close()
        _in_use.discard(self.folder.rpartition("/")[2])
        self.folder = ""


def read_lines(output: str) -> list[dict[str, Any]]:
    """Parse the JSON objects of the player, one per line; drivers may print other lines."""
    rows = map(read_object, output.splitlines())
    return [row for row in rows if row is not None]


def error_text(row: dict[str, Any]) -> str:
    """Return the error in an answer; '' if it holds no text."""
    said = row.get("error")
    return said if isinstance(said, str) else ""


@contextmanager
def _local_file() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="fourfold-") as folder:
        yield Path(folder) / "file"


def _family() -> str:
    """Return the prefix of folder names of this user on this machine."""
    user = f"{platform.node()} {os.path.expanduser('~')}"
    return f"fourfold-{hashlib.blake2b(user.encode(), digest_size=4).hexdigest()}"


def _is_abandoned(folder: str) -> bool:
    """Return True if the creator of a folder is gone: another local process, or a
    part of this one.
    """
    name = folder.rpartition("/")[2]
    number = name.removeprefix(f"{_family()}-").partition("-")[0]
    if re.fullmatch("[0-9]{1,9}", number) is None:
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
