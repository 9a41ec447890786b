"""Processes with an end: a scenario in an interpreter of its own, and children that it forks."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1]
PATIENCE = 300.0  # seconds for a scenario, on however busy a machine
CHILD_PATIENCE = 60.0  # for what a child does
HANGS = "it hangs"
GREETINGS = ("INFO: ", "=== Rusticl")  # what LiteRT and Mesa say on stderr when all is well


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
        with os.fdopen(target, "w") as answers:
            answers.write(json.dumps(outcome(action)))
        sys.exit(0)
    os.close(target)
    with os.fdopen(source) as answers:
        ready, _, _ = select.select([answers], [], [], CHILD_PATIENCE)
        told = answers.read() if ready else ""
    status = _end_of(child)
    return HANGS if status is None else json.loads(told) if status == 0 else f"status {status}"


def outcome(action: Callable[[], object]) -> object:
    """What an action gives, or the error that it raises."""
    try:
        return action()
    except Exception as error:  # noqa: BLE001 - it is told to the parent
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"


def _end_of(child: int) -> int | None:
    """The exit status; None where it did not end and had to be killed."""
    descriptor = os.pidfd_open(child)
    ended, _, _ = select.select([descriptor], [], [], CHILD_PATIENCE)
    os.close(descriptor)
    if not ended:
        os.kill(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return status if ended else None
