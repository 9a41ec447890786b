"""One engine in a process of its own, for compare.py: opens a model, then runs it as often as told.

It reads lines: `run N` is answered with the seconds of N runs, `device N` with those of the
device's part, and any other way in the same manner, or by a word why there is none. So no engine's
threads, driver or crash reaches another, and all take turns.
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

LONGEST = 200  # letters of a reason


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # engines are talkative
    name, words, results = sys.argv[1:4]
    given = json.loads(words)
    task = Task(**{**given, "model": Path(given["model"])})
    try:
        serve(name, task, Path(results), answers)
    except Missing as error:
        tell(answers, {"missing": str(error)})
    except Exception as error:
        tell(answers, {"missing": in_one_line(error)})
        raise
    finally:
        answers.flush()
        os._exit(0)  # some drivers crash on their way out


def serve(name: str, task: Task, results: Path, answers: TextIO) -> None:
    began = time.perf_counter()
    opened = open_peer(name, task)
    found = [np.asarray(one) for one in (opened.check or opened.run)()]
    np.savez(results, *(rows(one) if opened.planes else one for one in found))
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
    """One more way to run a model, warmed up; Missing where the engine has none, or fails at it."""
    if way not in opened.ways:
        raise Missing(f"it has no way {way!r}")
    try:
        call = opened.ways[way]()
        call()
    except Missing:
        raise
    except Exception as error:
        raise Missing(in_one_line(error)) from error
    return call


def in_one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0][:LONGEST]


def timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def tell(answers: TextIO, data: dict[str, Any]) -> None:
    answers.write(json.dumps(data) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
