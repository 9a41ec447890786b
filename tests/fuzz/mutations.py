"""Damage many model files and compile each for devices that are not attached, or open each in the
CPU engine of its format with --cpu.

Any result except a FourfoldError is a finding: another exception, a warning, a crash, a hang, or
excessive memory. A case is the title of a file and a number, and is reproducible with the same
seed: --case tries one again and shows its complete error.

Usage: PYTHONPATH=src:tests python -m fuzz.mutations --cases 100000 --jobs 16
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from math import ceil
from pathlib import Path
from typing import Any

from fuzz.case import MIB, Case, Finding, Outcome, try_case
from fuzz.originals import Originals
from fuzz.workers import Limits, try_cases

FOUND, INTERRUPTED = 1, 130  # exit statuses
PROGRESS_INTERVAL = 2.0  # seconds


@dataclass
class Tally:
    """Counts of the outcomes so far."""

    results: Counter[str] = field(default_factory=Counter)
    groups: dict[tuple[str, str, str], list[tuple[Case, Finding]]] = field(default_factory=dict)
    peak: int = 0
    longest: float = 0.0

    def add(self, case: Case, outcome: Outcome) -> None:
        self.results[outcome.result] += 1
        self.peak = max(self.peak, outcome.peak)
        self.longest = max(self.longest, outcome.seconds)
        if outcome.finding is not None:
            self.groups.setdefault(outcome.finding.group, []).append((case, outcome.finding))

    @property
    def count(self) -> int:
        return self.results.total()

    def summary(self) -> str:
        results = ", ".join(f"{count} {name}" for name, count in sorted(self.results.items()))
        most = f"{self.peak // MIB} MiB and {self.longest:.1f} s at most"
        return f"{self.count} cases: {results or 'none'}; {most}"

    def lines(self) -> Iterator[str]:
        yield self.summary()
        for some in sorted(self.groups.values(), key=len, reverse=True):
            case, finding = some[0]
            again = f"--seed {case.seed} --case '{case}'"
            yield f"{len(some)} x {finding.kind}: {finding.what.splitlines()[0]}"
            yield f"    {finding.where or 'nowhere'}; again with {again}"

    def record(self) -> dict[str, Any]:
        results = [
            [asdict(case) | asdict(one) for case, one in some] for some in self.groups.values()
        ]
        return {
            "cases": self.count,
            "results": dict(self.results),
            "peak_bytes": self.peak,
            "longest_seconds": self.longest,
            "findings": results,
        }


def plan_cases(originals: Originals, count: int, seed: int, only: str = "") -> list[Case]:
    """Return cases in random order; files of many operators are slower and get fewer cases."""
    titles = [title for title in originals.titles if only in title]
    weights = {title: originals.get(title).operations ** -0.5 for title in titles}
    share = count / sum(weights.values())
    cases = [
        Case(title, number, seed)
        for title, weight in weights.items()
        for number in range(ceil(share * weight))
    ]
    random.Random(seed).shuffle(cases)
    return cases[:count]


def progress(tally: Tally, total: int, started: float) -> str:
    rate = tally.count / max(time.monotonic() - started, 1e-9)
    left = round((total - tally.count) / max(rate, 1e-9))
    result = f"{tally.results['found']} findings of {len(tally.groups)} kinds"
    return (
        f"{tally.count} of {total}, {rate:.0f} a second, {left // 60}:{left % 60:02} left, {result}"
    )


def hunt(cases: Sequence[Case], jobs: int, limits: Limits, tally: Tally) -> None:
    """Try all cases; the tally contains the findings even after an interruption."""
    started = shown = time.monotonic()
    with closing(try_cases(cases, jobs, limits)) as outcomes:
        for case, outcome in outcomes:
            tally.add(case, outcome)
            if time.monotonic() - shown > PROGRESS_INTERVAL:
                shown = time.monotonic()
                print(progress(tally, len(cases), started), file=sys.stderr, flush=True)


def try_again(case: Case, limits: Limits) -> int:
    """Try one case in this process and show its complete error."""
    originals = Originals(limits.place)
    if case.title not in originals.titles:
        print(f"there is no file {case.title}; --list shows them", file=sys.stderr)
        return 2
    _, course = case.draw(originals)
    print(f"{case} with seed {case.seed} for {course}")
    outcome = try_case(case, originals, limits.play, limits.memory, limits.cpu)
    print(outcome.finding.trace or outcome.finding.what if outcome.finding else outcome.result)
    return FOUND if outcome.finding else 0


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("fuzz.mutations", description=__doc__.split("\n\n")[0])
    parser.add_argument("--cases", type=int, default=1000, help="number of cases (default: 1000)")
    parser.add_argument("--seed", type=int, default=0, help="random seed of the cases (default: 0)")
    parser.add_argument("--jobs", type=int, default=1, help="number of processes (default: 1)")
    parser.add_argument("--models", type=Path, help="an archive or a folder of files to damage")
    parser.add_argument(
        "--memory", type=int, default=2048, help="memory limit per case in MiB (default: 2048)"
    )
    parser.add_argument(
        "--patience", type=float, default=60.0, help="time limit per case in seconds"
    )
    parser.add_argument("--play", action="store_true", help="run small plans in the interpreter")
    parser.add_argument("--cpu", action="store_true", help="open files in their CPU engines")
    parser.add_argument("--only", default="", help="damage only files whose title has this text")
    parser.add_argument("--json", type=Path, help="write all findings to this file")
    parser.add_argument("--case", help="repeat one case, as TITLE:NUMBER")
    parser.add_argument("--list", action="store_true", help="list the titles of all files")
    parser.add_argument("--pack", type=Path, help="write an archive of all files, for --models")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> int:
    inputs = arguments(words)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # each process would reserve memory
    limits = Limits(inputs.models, inputs.play, inputs.memory * MIB, inputs.patience, inputs.cpu)
    originals = Originals(inputs.models)
    if inputs.list:
        print("\n".join(originals.titles))
        return 0
    if inputs.pack is not None:
        originals.pack(inputs.pack)
        return 0
    if inputs.case is not None:
        return try_again(Case.parse(inputs.case, inputs.seed), limits)
    tally, status = Tally(), 0
    try:
        hunt(
            plan_cases(originals, inputs.cases, inputs.seed, inputs.only),
            inputs.jobs,
            limits,
            tally,
        )
    except KeyboardInterrupt:
        status = INTERRUPTED
    print("\n".join(tally.lines()))
    if inputs.json is not None:
        inputs.json.write_text(json.dumps(tally.record(), indent=2) + "\n", encoding="utf-8")
    return status or (FOUND if tally.groups else 0)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # treat a time limit like Ctrl-C
    sys.exit(main())
