"""Runs one engine for compare.py in its own process, on commands from standard input.

Each command is a line: `run N` returns the seconds of N runs, `device N` those of the part on the
device; other run modes work the same way, or return why they are missing. Separate processes keep
threads, drivers and crashes of one engine away from the others.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from peers import Missing, Opened, Task, open_peer, rows

MAX_REASON_CHARS = 200


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # engines print to standard output
    name, words, results = sys.argv[1:4]
    task_data = json.loads(words)
    task = Task(**{**task_data, "model": Path(task_data["model"])})
    try:
        serve(name, task, Path(results), answers)
    except Missing as error:
        tell(answers, {"missing": str(error)})
    except Exception as error:
        tell(answers, {"missing": in_one_line(error)})
        raise
    finally:
        answers.flush()
        os._exit(0)  # some drivers crash at exit


def serve(name: str, task: Task, results: Path, answers: TextIO) -> None:
    began = time.perf_counter()
    opened = open_peer(name, task)
    outputs = [np.asarray(one) for one in (opened.check or opened.run)()]
    np.savez(results, *(rows(one) if opened.planes else one for one in outputs))
    opened.run()
    facts = {**opened.facts, "opened": time.perf_counter() - began}
    tell(answers, {"ready": facts, "device": opened.device is not None})
    calls: dict[str, Callable[[], object]] = {"run": opened.run}
    if opened.device is not None:
        calls["device"] = opened.device
    for line in sys.stdin:
        what, count = line.split()
        try:
            call = calls.get(what) or calls.setdefault(what, open_way(opened, what))
        except Missing as error:
            tell(answers, {"missing": str(error)})
        else:
            tell(answers, {"seconds": [timed(call) for _ in range(int(count))]})


def open_way(opened: Opened, way: str) -> Callable[[], object]:
    """Open and warm up a run mode; raises Missing if the engine lacks it or fails."""
    if way not in opened.ways:
        raise Missing(f"no run mode {way!r}")
    try:
        call = opened.ways[way]()
        call()
    except Missing:
        raise
    except Exception as error:
        raise Missing(in_one_line(error)) from error
    return call


def in_one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0][:MAX_REASON_CHARS]


def timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def tell(answers: TextIO, data: dict[str, Any]) -> None:
    answers.write(json.dumps(data) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
