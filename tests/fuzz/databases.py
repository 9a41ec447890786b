"""Start a model many times, each time with a cache whose database is damaged.

Any exception, wrong result or hang is a finding. So is a cache that the third start does not use,
because the damaged database was not set aside.

Usage: PYTHONPATH=src:tests python -m fuzz.databases --cases 5000
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import numpy as np
from fuzz.database_damage import damage_database
from tiny_matrix import WEIGHTS, matrix, numbers

import fourfold
from fourfold.backends.interpreter.device import PLAIN_GPU
from fourfold.store.database import NAME
from fourfold.store.store import Store

FOUND = 1  # exit status
PATIENCE_S = 60
PROGRESS_INTERVAL_S = 2.0
X = numbers(0)
BINARIES = (b"\x7fELF whole", b"\x7fELF refused", b"\x7fELF in another process")


class Stuck(Exception):
    """A start took too long, or the cache stays unused."""


def make_cache(place: Path) -> None:
    """Write a model, and a cache with rows in every table."""
    (place / "model.tflite").write_bytes(matrix())
    start(place)
    store = Store(place / "cache")
    store.put_choice("gpu", "conv", "wide", 0.5, effort=8)
    store.put_facts(PLAIN_GPU, {"resident": True}, ["matrix_units"])
    store.put_binary("model", {"text": "t"}, BINARIES[0])
    store.quarantine_binary(BINARIES[1], "the driver refused it")
    with store.loading(BINARIES[0]):
        store._begin("0123")


def start(place: Path) -> str:
    """Start and run the model with its cache; return the origin of the plan."""
    with fourfold.Session(place / "model.tflite", PLAIN_GPU, cache=place / "cache") as session:
        result = session.run(X)["y"]
    if not np.allclose(result, X @ WEIGHTS.T):
        raise ArithmeticError("the result is wrong")
    return session.origin


def use_everything(place: Path) -> None:
    """Call what starts on other devices and commands call."""
    store = Store(place / "cache")
    for binary in BINARIES:
        with store.loading(binary):
            pass
    store.choices("gpu")
    store.efforts("gpu")
    store.find_facts(PLAIN_GPU)
    store.put_facts(PLAIN_GPU, {"resident": False}, ["matrix_units"])
    store.find_binary({"text": "t"})
    store.put_choice("gpu", "conv", "tall", 0.25)
    assert all(isinstance(since, float) for *_, since in store.quarantined())
    assert all(asdict(entry) for entry in store.entries())
    store.fact_rows()
    store.verify()
    store.prune(1 << 30)


def try_case(place: Path, number: int, seed: int) -> tuple[str, str]:
    """Damage the cache, start three times, and return what was damaged and the failure, if any."""
    rng, name = random.Random(f"{seed} {number}"), "nothing"
    try:
        with warnings.catch_warnings(), patience():
            warnings.simplefilter("error")
            name = damage_database(rng, place / "cache" / NAME)
            start(place)
            use_everything(place)
            start(place)
            if start(place) != "store":
                raise Stuck("the cache is not used again")
    except Exception:  # noqa: BLE001 - this is what is looked for
        return name, traceback.format_exc()
    return name, ""


@contextmanager
def patience() -> Iterator[None]:
    """Raise Stuck in a case that takes too long."""

    def give_up(*_: object) -> None:
        raise Stuck(f"a start took longer than {PATIENCE_S} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(PATIENCE_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def try_cases(numbers: Sequence[int], seed: int) -> Iterator[tuple[int, str, str]]:
    """Yield each case's number, what was damaged, and the failure, if any."""
    memory = Path("/dev/shm")  # where a sync takes no time
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        whole = Path(folder) / "whole"
        whole.mkdir()
        make_cache(whole)
        for number in numbers:
            place = Path(folder) / "damaged"
            shutil.copytree(whole, place)
            yield number, *try_case(place, number, seed)
            (place / "cache" / NAME).parent.chmod(0o700)
            shutil.rmtree(place)


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "fuzz.databases", allow_abbrev=False, description=__doc__.split("\n\n")[0]
    )
    parser.add_argument("--cases", type=int, default=5000, help="number of cases (default: 5000)")
    parser.add_argument("--seed", type=int, default=0, help="random seed of the cases (default: 0)")
    parser.add_argument("--number", type=int, help="repeat one case")
    return parser.parse_known_args(words)[0]  # `make fuzz` passes options of other fuzzers, too


def main(words: Sequence[str] | None = None) -> int:
    inputs = arguments(words)
    cases = range(inputs.cases) if inputs.number is None else [inputs.number]
    kinds: Counter[str] = Counter()
    failed, shown = 0, time.monotonic()
    for number, name, failure in try_cases(cases, inputs.seed):
        kinds[name] += 1
        if failure:
            failed += 1
            print(f"case {number} with seed {inputs.seed}, damaged {name}:\n{failure}")
        if time.monotonic() - shown > PROGRESS_INTERVAL_S:
            shown = time.monotonic()
            print(f"{kinds.total()} of {len(cases)}, {failed} failures", file=sys.stderr)
    damaged = ", ".join(f"{count} {name}" for name, count in kinds.most_common())
    print(f"{kinds.total()} damaged databases ({damaged}): {failed} failures to start")
    return FOUND if failed else 0


if __name__ == "__main__":
    sys.exit(main())
