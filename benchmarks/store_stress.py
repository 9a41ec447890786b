"""Stress test of the store: many processes share one, and are killed at random times.

Each process repeatedly opens, runs and closes tiny models, checks every result, and sometimes
damages an entry, prunes the store, or adds a choice. Only killed processes may fail, and the
database must be intact at the end.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import sqlite3
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))  # for `tiny_plan`


@dataclass
class Outcome:
    """Counts and results of a stress test."""

    opens: int = 0
    hits: int = 0
    killed: int = 0
    failed: int = 0
    seconds: float = 0.0
    whole: bool = False
    damaged: int = 0


def work(folder: str, opens: int, seed: int, notes: str) -> None:
    """Run one process; every start must give the right result."""
    from tiny_plan import X, line

    import fourfold
    from fourfold.runtime import loading
    from fourfold.store.store import Store

    loading.compile_request = lambda request, tuned: line(*_line_of(request.model))
    chance = random.Random(seed)
    for number in range(opens):
        model = bytes([chance.randrange(8)])
        with fourfold.Session(model, cache=folder) as session:
            result = session.run(X)["the y"]
        a, b = _line_of(model)
        if not np.array_equal(result, np.float32(a) * X + np.float32(b)):
            raise SystemExit(f"wrong result in process {seed}, start {number}")
        with open(notes, "a", encoding="ascii") as file:
            file.write("h" if session.hit else "m")
        if chance.random() < 0.02:
            _disturb(Store(Path(folder)), chance)


def _line_of(model: Any) -> tuple[float, float]:
    return float(model[0]), 1.0


def _disturb(store: Any, chance: random.Random) -> None:
    """Damage an entry, prune everything, or add a choice."""
    what = chance.randrange(3)
    if what == 0 and (names := store.contents.names()):
        path = store.contents.folder / chance.choice(names)
        try:
            data = bytearray(path.read_bytes())
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
            aside = path.with_name(f".damage-{os.getpid()}")
            aside.write_bytes(data)
            os.replace(aside, path)
        except (OSError, ValueError):
            pass
    elif what == 1:
        store.prune(0)
    else:
        store.put_choice("a device", f"key {chance.random()}", "choice", 0.1)


def stress(folder: Path, processes: int, opens: int, kills_a_second: float, seed: int) -> Outcome:
    """Run the test; killed processes are restarted until all starts are done."""
    context = multiprocessing.get_context("spawn")  # PoCL does not survive a fork
    notes = [folder / f"notes-{number}" for number in range(processes)]
    store_path = str(folder / "store")
    chance, outcome, began = random.Random(seed), Outcome(), time.perf_counter()
    running: dict[int, Any] = {}

    def begin(number: int) -> None:
        left = opens - _count(notes[number])
        words = (
            store_path,
            max(left, 1),
            seed * 1000 + number + outcome.killed,
            str(notes[number]),
        )
        running[number] = context.Process(target=work, args=words)
        running[number].start()

    for number in range(processes):
        begin(number)
    while running:
        time.sleep(0.05)
        if chance.random() < kills_a_second * 0.05:
            victim = chance.choice(list(running.values()))
            victim.kill()
        for number, process in list(running.items()):
            if process.is_alive():
                continue
            process.join()
            del running[number]
            if process.exitcode == -signal.SIGKILL:
                outcome.killed += 1
                if _count(notes[number]) < opens:
                    begin(number)
            elif process.exitcode != 0:
                outcome.failed += 1
    outcome.seconds = time.perf_counter() - began
    texts = [note.read_text() if note.exists() else "" for note in notes]
    outcome.opens, outcome.hits = sum(map(len, texts)), sum(text.count("h") for text in texts)
    outcome.whole = _is_whole(folder / "store" / "store.sqlite")
    outcome.damaged = len(list((folder / "store").glob("*.damaged")))
    return outcome


def _count(note: Path) -> int:
    return note.stat().st_size if note.exists() else 0


def _is_whole(path: Path) -> bool:
    connection = sqlite3.connect(path)
    try:
        return bool(connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok")
    finally:
        connection.close()


@click.command(help=__doc__)
@click.option("--processes", default=16, show_default=True)
@click.option("--opens", default=200, show_default=True, help="Starts per process.")
@click.option("--kills", default=1.0, show_default=True, help="Kills per second.")
@click.option("--seed", default=0, show_default=True)
def main(processes: int, opens: int, kills: float, seed: int) -> None:
    with TemporaryDirectory() as folder:
        outcome = stress(Path(folder), processes, opens, kills, seed)
    print(json.dumps(asdict(outcome), indent=2))
    if outcome.failed or outcome.damaged or not outcome.whole:
        raise SystemExit("the store failed under stress")


if __name__ == "__main__":
    main()
