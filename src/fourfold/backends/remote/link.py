"""Links to other machines: run commands and copy files with a local program such as adb or ssh."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from typing import NamedTuple, NoReturn

from fourfold.backends.connections import ConnectionLost
from fourfold.config import android_folders
from fourfold.errors import DeviceError, InputError

TIMEOUT_S = 120.0  # for a command or a copy; building kernels takes longest
_MARK = "fourfold-status="
_STATUS = re.compile(rf"{_MARK}([0-9]{{1,9}})\s*$")
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


_INSTALL = "install it: 'apt install adb', 'brew install android-platform-tools', or Android's SDK"
_LISTING = 30.0  # seconds: the first call starts a server
# Words in adb's output, their cause, and the fix.
_REASONS = (
    (
        "unauthorized",
        "the phone has not authorized this computer for debugging",
        "unlock it and confirm 'Allow USB debugging'",
    ),
    ("offline", "the phone does not answer", "unplug it, plug it in again, or 'adb reconnect'"),
    (
        "no permissions",
        "this user may not access the USB device",
        "add a udev rule for it ('apt install android-sdk-platform-tools-common')",
    ),
    ("not found", "no such phone is attached", "plug it in; 'adb devices' lists attached phones"),
    ("no devices", "no phone is attached", "plug one in, with USB debugging enabled"),
)


class Phone(NamedTuple):
    """A line of `adb devices`."""

    serial: str
    state: str


class AdbLink(Link):
    """A phone, by its serial number."""

    api = "adb"

    def shell(self, command: str) -> list[str]:
        return [*self._adb, "shell", command]

    def push(self, path: str | os.PathLike[str], remote: str) -> None:
        self._copy("push", os.fspath(path), remote)

    def pull(self, remote: str, path: str | os.PathLike[str]) -> None:
        self._copy("pull", remote, os.fspath(path))

    def _copy(self, command: str, source: str, target: str) -> None:
        done = self.call([*self._adb, command, source, target])
        if done.returncode == 0:
            return
        output = done.stderr + done.stdout
        if _reason(output) is None and "failed to copy" in output:
            self.fail(f"copying {os.path.basename(source)}", output)
        self.lost(output)

    def explain(self, said: str) -> tuple[str, str]:
        reason = _reason(said)
        states = {phone.serial: phone.state for phone in attached_phones()}
        if reason is None and states.get(self.host, "") != "device":
            reason = _reason(states.get(self.host, "not found"))
        return reason or (last_line(said), "check the cable")

    @property
    def _adb(self) -> tuple[str, ...]:
        return (adb_program(), "-s", self.host)


def adb_program() -> str:
    """Return the path of adb: on PATH, or in the SDK."""
    _, sdks = android_folders()
    return find_program("adb", [f"{sdk}/platform-tools/adb" for sdk in sdks], _INSTALL)


def attached_phones() -> list[Phone]:
    """Return all phones that adb lists, in any state."""
    try:
        done = subprocess.run(
            [adb_program(), "devices"],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=_LISTING,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        fix = "try 'adb kill-server', then 'adb devices'"
        raise DeviceError("adb does not answer", str(error), fix) from error
    lines = (line.partition("\t") for line in done.stdout.splitlines())
    return [Phone(serial, state.strip()) for serial, tab, state in lines if tab]


def find_phone(serial: str) -> AdbLink:
    """Return the phone with this serial number, or the only attached one for 'auto'."""
    if serial not in ("", "auto"):
        return AdbLink(serial)
    phones = attached_phones()
    ready = [phone for phone in phones if phone.state == "device"]
    if len(ready) == 1:
        return AdbLink(ready[0].serial)
    if len(ready) > 1:
        names = ", ".join(phone.serial for phone in ready)
        raise DeviceError(
            "several phones are attached", f"they are {names}", "name one of them: 'adb:SERIAL'"
        )
    state = phones[0].state if phones else "no devices"
    why, fix = _reason(state) or (f"it is in the state '{state}'", "start it normally")
    raise DeviceError("no phone can be used", why, fix)


def _reason(said: str) -> tuple[str, str] | None:
    text = said.lower()
    return next(((why, fix) for word, why, fix in _REASONS if word in text), None)


_SSH_INSTALL = "install OpenSSH's client: 'apt install openssh-client'"
_FAILED = 255  # status of ssh itself, not of the remote command
_SSH_REASONS = (
    (
        "permission denied",
        "it does not accept your key",
        "copy your key with 'ssh-copy-id'",
    ),
    (
        "host key verification failed",
        "its host key is unknown, or has changed",
        "log in once with 'ssh' and follow its instructions",
    ),
    ("could not resolve", "its name is unknown", "check the name, or add it to ~/.ssh/config"),
    (
        "timed out",
        "it does not answer",
        "check that it is switched on and connected to the network",
    ),
    ("refused", "it runs no ssh server", "start one on the machine"),
)


class SshLink(Link):
    """A machine, by its host name. One connection is shared by all commands."""

    api = "ssh"

    def __init__(self, host: str) -> None:
        super().__init__(host)
        self._sockets: str | None = None

    def shell(self, command: str) -> list[str]:
        return [*self._ssh, "--", self.host, command]

    def push(self, path: str | os.PathLike[str], remote: str) -> None:
        with open(path, "rb") as source:
            done = self.call(self.shell(f"cat > {shlex.quote(remote)}"), source=source.fileno())
        self._check(done.returncode, done.stderr, f"copying {os.path.basename(path)}")

    def pull(self, remote: str, path: str | os.PathLike[str]) -> None:
        with open(path, "wb") as target:
            try:
                done = subprocess.run(
                    self.shell(f"cat {shlex.quote(remote)}"),
                    stdin=subprocess.DEVNULL,
                    stdout=target,
                    stderr=subprocess.PIPE,
                    check=False,
                    timeout=TIMEOUT_S,
                )
            except (OSError, subprocess.TimeoutExpired) as error:
                self.lost(str(error))
        self._check(done.returncode, done.stderr.decode(errors="replace"), f"fetching {remote}")

    def _check(self, status: int, said: str, doing: str) -> None:
        if status == _FAILED:
            self.lost(said)
        if status:
            self.fail(doing, said)

    def explain(self, said: str) -> tuple[str, str]:
        text = said.lower()
        reason = next(((why, fix) for word, why, fix in _SSH_REASONS if word in text), None)
        return reason or (last_line(said), f"try 'ssh {self.host}' in a terminal")

    def close(self) -> None:
        if self._sockets is not None:
            self.call([*self._ssh, "-O", "exit", "--", self.host])
            shutil.rmtree(self._sockets, ignore_errors=True)
            self._sockets = None

    @property
    def _ssh(self) -> tuple[str, ...]:
        """Command line of ssh, in batch mode: a password prompt would be hidden by a
        progress bar.
        """
        if self._sockets is None:
            self._sockets = tempfile.mkdtemp(prefix="fourfold-ssh-")
        shared = ("ControlMaster=auto", f"ControlPath={self._sockets}/%C", "ControlPersist=30")
        options = ("BatchMode=yes", "ConnectTimeout=10", *shared)
        return (ssh_program(), *(word for option in options for word in ("-o", option)))


def ssh_program() -> str:
    return find_program("ssh", (), _SSH_INSTALL)
