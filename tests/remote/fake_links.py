"""Commands `adb` and `ssh` that lead to a folder of this machine, and fail as they are told to.

The folder's `state.json` says what is attached and what goes wrong; `calls` has a byte for each
call and for each line that came back, so that a cable can be cut at any of them.
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
    """One more call or line; gives how many there were."""
    with (PHONE / "calls").open("ab") as file:
        file.write(b".")
    return (PHONE / "calls").stat().st_size


def is_cut() -> bool:
    before, limit = count(), state().get("cut_at")
    return limit is not None and before > limit


def here(text: str) -> str:
    """Paths of the machine as paths of this one."""
    return text.replace(TEMPORARY, f"{PHONE}{TEMPORARY}")


def environment() -> dict[str, str]:
    tools = f"{PHONE}/bin:{os.environ['PATH']}"
    return {**os.environ, "PATH": tools, **state().get("environment", {})}


def fail(message: str, status: int = 1) -> None:
    sys.stderr.write(f"{message}\n")
    sys.stderr.flush()
    os._exit(status)


def run_shell(command: str, gone: str, status: int) -> None:
    """Runs a command, and hands its lines on as long as the cable holds."""
    child = subprocess.Popen(
        ["sh", "-c", here(command)], stdout=subprocess.PIPE, env=environment(), bufsize=0
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


def check_room(path: Path) -> None:
    room = state().get("room")
    if room is not None and path.stat().st_size > room:
        fail(f"adb: error: failed to copy '{path}' to '{TEMPORARY}': No space left on device")


def push(source: str, target: str) -> None:
    check_room(Path(source))
    shutil.copy(source, here(target))
    if target.endswith("/fourfold-run") and state().get("foreign"):
        Path(here(target)).write_bytes(b"\x7fELF" + bytes(60))
    sys.stdout.write("1 file pushed\n")


def pull(source: str, target: str) -> None:
    if not Path(here(source)).exists():
        fail(f"adb: error: failed to stat remote object '{source}': No such file or directory")
    shutil.copy(here(source), target)


def adb(arguments: list[str]) -> None:
    attached = state()["attached"]
    if arguments == ["devices"]:
        sys.stdout.write("List of devices attached\n")
        cut = is_cut()
        shown = {} if cut else attached
        sys.stdout.write("".join(f"{name}\t{how}\n" for name, how in shown.items()) + "\n")
        return
    assert arguments[0] == "-s"
    serial, way, *rest = arguments[1:]
    gone = f"adb: device '{serial}' not found"
    if is_cut() or serial not in attached:
        fail(gone)
    if attached[serial] != "device":
        fail(f"adb: device {attached[serial]}")
    if way == "shell":
        run_shell(rest[0], gone, 1)
    {"push": push, "pull": pull}[way](*rest)


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
