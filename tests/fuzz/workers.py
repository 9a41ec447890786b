"""Run cases in several processes. A process that hangs is ended, one that crashes is replaced, and
both are findings.
"""

from __future__ import annotations

import multiprocessing
import resource
import signal
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnContext, SpawnProcess
from pathlib import Path

from fuzz.case import Case, Finding, Outcome, try_case
from fuzz.originals import Originals

POLL_INTERVAL = 0.5  # maximum seconds between checks for hangs
MEMORY_FACTOR = 2  # of the memory limit of a case, before the system denies more


@dataclass(frozen=True)
class Limits:
    """Limits of each case."""

    place: Path | None  # location of the files; see Originals
    play: bool
    memory: int  # bytes
    patience: float  # seconds
    cpu: bool = False  # open files in their CPU engines instead of compiling them


def _work(tasks: Connection, limits: Limits) -> None:
    """Receive cases and send their outcomes, until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
    most = MEMORY_FACTOR * limits.memory
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    originals = Originals(limits.place)
    while (case := tasks.recv()) is not None:
        tasks.send(try_case(case, originals, limits.play, limits.memory, limits.cpu))


@dataclass
class _Worker:
    """A process and its current case."""

    context: SpawnContext
    limits: Limits
    case: Case | None = None
    since: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.tasks, theirs = self.context.Pipe()
        self.process: SpawnProcess = self.context.Process(
            target=_work, args=(theirs, self.limits), daemon=True
        )
        self.process.start()
        theirs.close()

    def begin(self, case: Case) -> None:
        self.case, self.since = case, time.monotonic()
        self.tasks.send(case)

    def finish(self) -> Outcome:
        """Return the outcome of the case; a crashed process is a finding."""
        try:
            outcome: Outcome = self.tasks.recv()
        except (EOFError, ConnectionError):
            self.process.join()
            code = self.process.exitcode or 0
            name = signal.Signals(-code).name if code < 0 else f"exit status {code}"
            return self._lost(Finding("crash", f"the process died by {name}"))
        return outcome

    def give_up(self) -> Outcome:
        self.end()
        what = f"it took longer than {self.limits.patience:g} s"
        return self._lost(Finding("hang", what))

    def _lost(self, finding: Finding) -> Outcome:
        return Outcome("found", time.monotonic() - self.since, 0, finding)

    @property
    def hangs(self) -> bool:
        return self.case is not None and time.monotonic() - self.since > self.limits.patience

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.tasks.close()


def try_cases(cases: Iterable[Case], jobs: int, limits: Limits) -> Iterator[tuple[Case, Outcome]]:
    """Yield the outcome of each case, in order of completion."""
    context, left = multiprocessing.get_context("spawn"), iter(cases)
    workers: list[_Worker] = []
    try:
        for case in (case for _, case in zip(range(jobs), left, strict=False)):
            workers.append(_Worker(context, limits))
            workers[-1].begin(case)
        while workers:
            ready = wait([worker.tasks for worker in workers], min(POLL_INTERVAL, limits.patience))
            for number, worker in reversed([*enumerate(workers)]):
                if worker.tasks not in ready and not worker.hangs:
                    continue
                case = worker.case
                outcome = worker.finish() if worker.tasks in ready else worker.give_up()
                assert case is not None
                yield case, outcome
                _go_on(workers, number, next(left, None), outcome)
    finally:
        for worker in workers:
            worker.end()


def _go_on(workers: list[_Worker], number: int, case: Case | None, outcome: Outcome) -> None:
    """Give a worker its next case. Replace a worker that is gone; end it without a case."""
    worker = workers[number]
    if outcome.finding is not None and outcome.finding.kind in ("hang", "crash"):
        workers[number] = worker = _Worker(worker.context, worker.limits)
    if case is None:
        workers.pop(number).end()
    else:
        worker.begin(case)
