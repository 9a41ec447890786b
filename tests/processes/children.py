"""Processes with an end: a scenario in an interpreter of its own, and children that it forks."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1]
PATIENCE = 300.0  # seconds for a scenario, on however busy a machine
CHILD_PATIENCE = 60.0  # for what a child does
HANGS = "it hangs"
# What LiteRT and Mesa say on stderr when all is well, and what is known to be wrong with lavapipe.
GREETINGS = ("INFO: ", "=== Rusticl", "error: XDG_RUNTIME_DIR", "llvmpipe (")


def play(scenario: str, *arguments: object, cache: Path | None = None) -> Any:
    """What a function of `processes.scenarios` gives, called in an interpreter of its own, which
    must end by itself, with nothing on stderr.
    """
    given = [scenario, *map(str, arguments)]
    code = "import sys; from processes import scenarios; scenarios.main(*sys.argv[1:])"
    places = [str(TESTS), os.environ.get("PYTHONPATH", "")]
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(places)}
    if cache is not None:
        variables["FOURFOLD_CACHE"] = str(cache)
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code, *given],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=variables,
        start_new_session=True,
    )
    try:
        told, problems = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return HANGS
    problems = "\n".join(line for line in problems.splitlines() if not line.startswith(GREETINGS))
    assert (process.returncode, problems) == (0, ""), f"{process.returncode}: {problems}"
    return json.loads(told.splitlines()[-1])


def in_child(action: Callable[[], object]) -> object:
    """What an action gives in a forked child, which ends as any Python does; the name of an error
    and its first line where it raises one.
    """
    source, target = os.pipe()
    child = os.fork()
    if not child:
        os.close(source)
        os.write(target, json.dumps(outcome(action)).encode())
        sys.exit(0)  # the pipe stays open until the very end
    os.close(target)
    told = _read_to_the_end(source)
    os.close(source)
    if told is None:
        os.kill(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return HANGS if told is None else json.loads(told) if status == 0 else f"status {status}"


def _read_to_the_end(source: int) -> bytes | None:
    """What comes through a pipe until whoever writes has ended; None where that takes too long."""
    told, latest = b"", time.monotonic() + CHILD_PATIENCE
    while select.select([source], [], [], max(0.0, latest - time.monotonic()))[0]:
        piece = os.read(source, 1 << 16)
        if not piece:
            return told
        told += piece
    return None


def outcome(action: Callable[[], object]) -> object:
    """What an action gives, or the error that it raises."""
    try:
        return action()
    except Exception as error:  # noqa: BLE001 - it is told to the parent
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
