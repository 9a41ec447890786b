"""Phones attached with a cable, through Android's adb."""

from __future__ import annotations

import os
import subprocess
from typing import NamedTuple

from fourfold.backends.remote.link import Link, find_program, last_line
from fourfold.config import android_folders
from fourfold.errors import DeviceError

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
