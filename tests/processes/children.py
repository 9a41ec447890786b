"""Processes with a time limit: a scenario in its own interpreter, and children that it forks."""

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
SCENARIO_TIMEOUT = 300.0  # seconds, on a busy machine
CHILD_TIMEOUT = 60.0  # seconds
HANGS = "it hangs"
# Harmless messages of LiteRT and Mesa on stderr, and known problems of lavapipe.
HARMLESS_MESSAGES = ("INFO: ", "=== Rusticl", "error: XDG_RUNTIME_DIR", "llvmpipe (")


def play(scenario: str, *arguments: object, cache: Path | None = None) -> Any:
    """Run a function of `processes.scenarios` in its own interpreter, and return its result. The
    process must end by itself, with nothing on stderr.
    """
    inputs = [scenario, *map(str, arguments)]
    code = "import sys; from processes import scenarios; scenarios.main(*sys.argv[1:])"
    paths = [str(TESTS), os.environ.get("PYTHONPATH", "")]
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    if cache is not None:
        variables["FOURFOLD_CACHE"] = str(cache)
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code, *inputs],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=variables,
        start_new_session=True,
    )
    try:
        told, problems = process.communicate(timeout=SCENARIO_TIMEOUT)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return HANGS
    problems = "\n".join(
        line for line in problems.splitlines() if not line.startswith(HARMLESS_MESSAGES)
    )
    assert (process.returncode, problems) == (0, ""), f"{process.returncode}: {problems}"
    return json.loads(told.splitlines()[-1])


def in_child(action: Callable[[], object]) -> object:
    """Return the result of an action in a forked child that exits normally, or the name and first
    line of its error.
    """
    source, target = os.pipe()
    child = os.fork()
    if not child:
        os.close(source)
        os.write(target, json.dumps(outcome(action)).encode())
        sys.exit(0)  # keeps the pipe open until the process ends
    os.close(target)
    content = _read_to_the_end(source)
    os.close(source)
    if content is None:
        os.kill(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return HANGS if content is None else json.loads(content) if status == 0 else f"status {status}"


def _read_to_the_end(source: int) -> bytes | None:
    """Return the content of a pipe until its writer ends; None after a timeout."""
    told, latest = b"", time.monotonic() + CHILD_TIMEOUT
    while select.select([source], [], [], max(0.0, latest - time.monotonic()))[0]:
        piece = os.read(source, 1 << 16)
        if not piece:
            return told
        told += piece
    return None


def outcome(action: Callable[[], object]) -> object:
    """Return the result of an action, or the error that it raises."""
    try:
        return action()
    except Exception as error:  # noqa: BLE001 - it is told to the parent
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
