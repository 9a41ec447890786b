"""Fake commands `adb` and `ssh` that lead to a folder of this machine, and fail on request.

The folder's `state.json` lists attached devices and failures; `calls` has a byte for each call and
each returned line, so that the cable can be cut at any of them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

PHONE = Path(os.environ["FAKE_MACHINE"])
TEMPORARY = "/data/local/tmp"


def state() -> dict:
    return json.loads((PHONE / "state.json").read_text())


def count() -> int:
    """Count one more call or line, and return the previous number."""
    with (PHONE / "calls").open("ab") as file:
        file.write(b".")
    return (PHONE / "calls").stat().st_size


def is_cut() -> bool:
    before, limit = count(), state().get("cut_at")
    return limit is not None and before > limit


def to_local_path(text: str) -> str:
    """Translate paths of the machine to local ones."""
    return text.replace(TEMPORARY, f"{PHONE}{TEMPORARY}")


def environment() -> dict[str, str]:
    tools = f"{PHONE}/bin:{os.environ['PATH']}"
    return {**os.environ, "PATH": tools, **state().get("environment", {})}


def fail(message: str, status: int = 1) -> None:
    sys.stderr.write(f"{message}\n")
    sys.stderr.flush()
    os._exit(status)


def run_shell(command: str, gone: str, status: int) -> None:
    """Run a command, and pass on its lines until the cable is cut."""
    child = subprocess.Popen(
        ["sh", "-c", to_local_path(command)], stdout=subprocess.PIPE, env=environment(), bufsize=0
    )
    assert child.stdout is not None
    for line in child.stdout:
        if is_cut():
            child.kill()
            child.wait()
            fail(gone, status)
        sys.stdout.buffer.write(line.replace(os.fsencode(PHONE), b""))
        sys.stdout.buffer.flush()
    sys.exit(child.wait())


def check_disk_space(path: Path) -> None:
    room = state().get("room")
    if room is not None and path.stat().st_size > room:
        fail(f"adb: error: failed to copy '{path}' to '{TEMPORARY}': No space left on device")


def push(source: str, target: str) -> None:
    check_disk_space(Path(source))
    shutil.copy(source, to_local_path(target))
    if target.endswith("/fourfold-run") and state().get("foreign"):
        Path(to_local_path(target)).write_bytes(b"\x7fELF" + bytes(60))
    sys.stdout.write("1 file pushed\n")


def pull(source: str, target: str) -> None:
    if not Path(to_local_path(source)).exists():
        fail(f"adb: error: failed to stat remote object '{source}': No such file or directory")
    shutil.copy(to_local_path(source), target)


def adb(arguments: list[str]) -> None:
    attached = state()["attached"]
    if arguments == ["devices"]:
        sys.stdout.write("List of devices attached\n")
        cut = is_cut()
        shown = {} if cut else attached
        sys.stdout.write("".join(f"{name}\t{how}\n" for name, how in shown.items()) + "\n")
        return
    assert arguments[0] == "-s"
    serial, command, *parameters = arguments[1:]
    gone = f"adb: device '{serial}' not found"
    if is_cut() or serial not in attached:
        fail(gone)
    if attached[serial] != "device":
        fail(f"adb: device {attached[serial]}")
    if command == "shell":
        run_shell(parameters[0], gone, 1)
    {"push": push, "pull": pull}[command](*parameters)


def ssh(arguments: list[str]) -> None:
    while arguments[0] != "--":
        if arguments[0] == "-O":
            return
        arguments = arguments[2:]
    host, *command = arguments[1:]
    problem = state().get("ssh_problem")
    if problem:
        fail(problem, 255)
    gone = f"ssh: connect to host {host} port 22: Connection timed out"
    if is_cut():
        fail(gone, 255)
    if command:
        run_shell(command[0], gone, 255)


if __name__ == "__main__":
    {"adb": adb, "ssh": ssh}[Path(sys.argv[0]).name](sys.argv[1:])
