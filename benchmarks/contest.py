"""Runs one model in several engines, each in its own process, with interleaved runs."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from peers import OURS, Missing, Task
from setting import relative_error

from fourfold.tools.report.timing import Times

TURN_SECONDS, MAX_TURN_RUNS = 0.2, 2000
WARM_UP_SHARE = 0.05  # discarded share of a turn's runs: another engine ran before
MIN_WARM_UP_RUNS = 2
TURN_TIMEOUT_S = 60.0  # an engine without an answer by then counts as stuck
REFERENCES = ("litert", "onnx_runtime", OURS)  # the first available one is the reference


@dataclass
class Contestant:
    """The process of one engine. `missing` is the reason why it cannot take part."""

    name: str
    task: Task
    folder: Path
    environment: Mapping[str, str]
    scripts: Path = Path(__file__).parent  # those of another checkout run that checkout
    more: Sequence[str] = ()  # run modes besides 'run' and 'device'
    missing: str = ""
    facts: dict[str, Any] = field(default_factory=dict)
    seconds: dict[str, list[float]] = field(default_factory=dict)

    def open(self, patience: float) -> None:
        script = self.scripts / "contestant.py"
        task_data = {**asdict(self.task), "model": str(self.task.model)}
        if not self.task.prepared:
            del task_data["prepared"]  # unknown to older checkouts
        words = json.dumps(task_data)
        with (self.folder / f"{self.name}.log").open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(script), self.name, words, str(self.results)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, **self.environment},
            )
        try:
            answer = self._answer(patience)
        except Missing as error:
            answer = {"missing": str(error)}
        self.missing = answer.get("missing", "")
        self.facts = answer.get("ready", {})
        ways = ("run", "device") if answer.get("device") else ("run",)
        self.seconds = {} if self.missing else {way: [] for way in ways}
        if self.missing:
            self.close()
        else:
            self._open_more(patience)

    def _open_more(self, patience: float) -> None:
        """Open further run modes; the reason why one is missing goes into the facts."""
        for way in self.more:
            try:
                answer = self._told(f"{way} 1", patience)
            except Missing as error:
                self.missing, self.seconds = f"{way}: {error}", {}
                self.close()
                return
            if "missing" in answer:
                self.facts[f"no {way}"] = answer["missing"]
            else:
                self.seconds[way] = []

    @property
    def results(self) -> Path:
        return self.folder / f"{self.name}.npz"

    def outputs(self) -> list[np.ndarray]:
        with np.load(self.results) as found:
            return [found[name] for name in found.files]

    def take_turn(self) -> None:
        """Run the model for one turn in each run mode."""
        for way, noted in self.seconds.items():
            typical = max(min(noted, default=TURN_SECONDS / 2), 1e-6)
            count = max(1, min(MAX_TURN_RUNS, int(TURN_SECONDS / typical)))
            settling = (
                max(MIN_WARM_UP_RUNS, int(WARM_UP_SHARE * count)) if typical < TURN_SECONDS else 0
            )
            noted += self._ask(f"{way} {settling + count}")[settling:]

    def times(self, way: str = "run") -> Times | None:
        return Times.of(self.seconds[way]) if self.seconds.get(way) else None

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()

    def _ask(self, line: str) -> list[float]:
        answer = self._told(line, TURN_TIMEOUT_S)
        if "missing" in answer:
            raise Missing(answer["missing"])
        seconds: list[float] = answer["seconds"]
        return seconds

    def _told(self, line: str, patience: float) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n".encode())
        self.process.stdin.flush()
        return self._answer(patience)

    def _answer(self, patience: float) -> dict[str, Any]:
        assert self.process.stdout is not None
        with selectors.DefaultSelector() as waiting:
            waiting.register(self.process.stdout, selectors.EVENT_READ)
            if not waiting.select(patience):
                raise Missing(f"no answer after {patience:.0f} s")
        line = self.process.stdout.readline()
        if not line:
            raise Missing(f"it ended with {self.process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer


def contest(contestants: Sequence[Contestant], patience: float, seconds: float) -> None:
    """Open all engines and interleave their runs; engines that fail are marked as missing."""
    for one in contestants:
        one.open(patience)
    began, rounds = time.perf_counter(), 0
    ready = [one for one in contestants if not one.missing]
    while ready and (rounds < 2 or time.perf_counter() - began < seconds):
        rounds += 1
        for one in list(ready):
            try:
                one.take_turn()
            except (Missing, BrokenPipeError) as error:
                one.missing, one.seconds = str(error), {}
                ready.remove(one)
                one.close()
    judge(contestants)
    for one in ready:
        one.close()


def judge(contestants: Sequence[Contestant]) -> None:
    """Record the error of each engine relative to the first available reference."""
    available = {one.name: one for one in contestants if not one.missing}
    judges = [available[name] for name in REFERENCES if name in available]
    for one in available.values():
        if judges and one is not judges[0]:
            one.facts["error"] = relative_error(one.outputs(), judges[0].outputs())
