"""Long loads: sessions opened and closed, run repeatedly, shared by threads, and many at once."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from float_networks import small_classifier, write_tflite
from held_resources import Resources, counted_handles
from tiny_matrix import matrix

import fourfold
from fourfold.device import DeviceInfo

WARM_UP = 0.2  # share of a load before resources are measured: caches fill up
GRACE = 300.0  # seconds for a thread to stop
ANSWERS = 5  # inputs of each session with known results


@dataclass
class Outcome:
    """The outcome of a load."""

    name: str
    done: int = 0
    wrong: int = 0
    stuck: int = 0  # threads that did not end
    errors: list[str] = field(default_factory=list)
    seconds: float = 0.0
    before: Resources | None = None  # after the warm-up
    after: Resources | None = None

    @property
    def growth(self) -> int:
        """Growth of resident bytes after the warm-up."""
        assert self.before is not None
        assert self.after is not None
        return self.after.memory - self.before.memory

    @property
    def objects(self) -> int:
        """Growth of Python objects after the warm-up."""
        assert self.before is not None
        assert self.after is not None
        return self.after.objects - self.before.objects

    @property
    def left(self) -> dict[str, int]:
        """Growth of files, threads and handles after the warm-up."""
        assert self.before is not None
        assert self.after is not None
        return self.after.beyond(self.before)

    def as_row(self) -> dict[str, Any]:
        return {
            "load": self.name,
            "done": self.done,
            "seconds": round(self.seconds, 1),
            "wrong": self.wrong,
            "stuck": self.stuck,
            "errors": self.errors[:3],
            "growth": self.growth,
            "objects": self.objects,
            "left": self.left,
        }


class Checked:
    """A session with inputs and the results that it returned when it was alone."""

    def __init__(self, session: fourfold.Session, seed: int = 0) -> None:
        self.session, generator = session, np.random.default_rng(seed)
        self.inputs = [
            {info.name: _random(generator, info.shape, info.dtype) for info in session.inputs}
            for _ in range(ANSWERS)
        ]
        self._answers = [session.run(one) for one in self.inputs]

    def run(self, number: int, how: str = "run") -> bool:
        """Return True if a run returns the earlier result, bit by bit."""
        inputs, expected = self.inputs[number], self._answers[number]
        outputs = self.session.run(inputs) if how == "run" else self._in_flight(inputs)
        return all(np.array_equal(outputs[name], expected[name]) for name in expected)

    def _in_flight(self, given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        result: dict[str, np.ndarray] = self.session.run_async(given).result(timeout=GRACE)
        return result


def _random(generator: np.random.Generator, shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
    if dtype == np.uint8:
        return generator.integers(0, 256, shape, np.uint8)
    return generator.uniform(-1, 1, shape).astype(dtype)


def _steps(name: str, steps: int, step: Callable[[int], bool]) -> Outcome:
    """Run steps one after the other, and measure resources after the first ones."""
    outcome, began = Outcome(name), time.perf_counter()
    with counted_handles() as handles:
        for number in range(steps):
            if number == max(1, int(WARM_UP * steps)):
                outcome.before = handles.resources()
            outcome.wrong += not step(number)
            outcome.done += 1
        outcome.after = handles.resources()
    outcome.seconds = time.perf_counter() - began
    return outcome


def open_run_close(device: DeviceInfo | str, cycles: int) -> Outcome:
    """Open sessions of two models, some closed and some left to the garbage collector."""
    models = [matrix(), write_tflite(small_classifier())]
    answers: dict[int, dict[str, np.ndarray]] = {}

    def cycle(number: int) -> bool:
        session = fourfold.Session(models[number % 2], device, cache="memory")
        x = np.full(session.inputs[0].shape, 0.5, np.float32)
        outputs = session.run(x)
        if number % 3:
            session.close()
        expected = answers.setdefault(number % 2, outputs)
        return all(np.array_equal(outputs[name], expected[name]) for name in expected)

    return _steps("open, run, close", cycles, cycle)


def run_again(device: DeviceInfo | str, runs: int) -> Outcome:
    """Run one session in all modes."""
    with fourfold.Session(matrix(), device, cache="memory") as session:
        checked = Checked(session)

        def step(number: int) -> bool:
            return checked.run(number % ANSWERS, "run" if number % 10 else "in flight")

        return _steps("run", runs, step)


def many_at_once(device: DeviceInfo | str, count: int) -> Outcome:
    """Open many sessions of one model together, twice."""

    def all_open(number: int) -> bool:
        sessions = [fourfold.Session(matrix(), device, cache="memory") for _ in range(count)]
        checked = [Checked(session, seed=number) for session in sessions]
        right = all(one.run(n % ANSWERS) for n, one in enumerate(checked))
        for session in sessions:
            session.close()
        return right

    outcome = _steps("open at once", 2, all_open)
    outcome.done = 2 * count
    return outcome


class Crowd:
    """Threads that share sessions and check their results."""

    def __init__(self, sessions: Sequence[Checked], threads: int, seconds: float) -> None:
        self._sessions, self._until = sessions, time.perf_counter() + seconds
        self._lock, self._outcome = threading.Lock(), Outcome("threads")
        self._threads = [
            threading.Thread(target=self._work, args=(seed,), daemon=True)
            for seed in range(threads)
        ]

    def _work(self, seed: int) -> None:
        chance, done, wrong = random.Random(seed), 0, 0
        try:
            while time.perf_counter() < self._until:
                one = self._sessions[chance.randrange(len(self._sessions))]
                mode = "run" if chance.random() < 0.8 else "in flight"
                wrong += not one.run(chance.randrange(ANSWERS), mode)
                done += 1
        except Exception as error:  # noqa: BLE001 - it is told, and the load has failed
            with self._lock:
                self._outcome.errors.append(f"{type(error).__name__}: {error}")
        with self._lock:
            self._outcome.done += done
            self._outcome.wrong += wrong

    def play(self) -> Outcome:
        outcome, began = self._outcome, time.perf_counter()
        for thread in self._threads:
            thread.start()
        latest = self._until + GRACE
        for thread in self._threads:
            thread.join(max(0.0, latest - time.perf_counter()))
        outcome.stuck = sum(thread.is_alive() for thread in self._threads)
        outcome.seconds = time.perf_counter() - began
        return outcome


def crowd_of_threads(
    device: DeviceInfo | str, seconds: float, threads: int = 16, sessions: int = 8
) -> Outcome:
    """Run threads on sessions that are opened and closed, twice: the first is the warm-up."""
    with counted_handles() as handles:
        first = _crowd(device, WARM_UP * seconds, threads, sessions)
        before = handles.resources()
        outcome = _crowd(device, (1 - WARM_UP) * seconds, threads, sessions)
        outcome.before, outcome.after = before, handles.resources()
    outcome.done, outcome.wrong = outcome.done + first.done, outcome.wrong + first.wrong
    outcome.stuck, outcome.errors = outcome.stuck + first.stuck, first.errors + outcome.errors
    outcome.seconds += first.seconds
    return outcome


def _crowd(device: DeviceInfo | str, seconds: float, threads: int, sessions: int) -> Outcome:
    """Run threads on sessions on the device and on the CPU, with floats and bytes."""
    pixels = fourfold.Pixels(mean=127.5, std=127.5)
    kinds: list[dict[str, Any]] = [
        {"device": device},
        {"device": device, "precision": "mixed"},
        {"device": device, "pixels": pixels},
        {"device": "cpu", "threads": 1},
    ]
    model = write_tflite(small_classifier())
    opened = [
        fourfold.Session(model, cache="memory", **kinds[number % len(kinds)])
        for number in range(sessions)
    ]
    outcome = Crowd([Checked(one) for one in opened], threads, seconds).play()
    if not outcome.stuck:
        for session in opened:
            session.close()
    return outcome
