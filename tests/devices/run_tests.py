"""Run tests on one device of one implementation in separate processes, result by result."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from devices.implementations import Implementation
from devices.results import MODELS_FILE, Result, Row, parse_line

ROOT = Path(__file__).resolve().parents[2]
TESTS = ("tests/ops", f"tests/devices/{MODELS_FILE}")
START_TIMEOUT = 180.0  # seconds before the first test, and between tests
Watch = Callable[[Row, int], None]  # the row so far, and the number of tests


@dataclass(frozen=True)
class Setting:
    """An implementation with a number of threads, and the environment in which it is alone."""

    implementation: Implementation
    threads: int
    environment: Mapping[str, str]

    def start(self, *words: str, **how: object) -> subprocess.Popen[bytes]:
        """Start a Python process in its own group, with processor affinity if nothing else limits
        threads.
        """
        paths = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])
        environment = {**os.environ, **self.environment, "PYTHONPATH": paths}
        process: subprocess.Popen[bytes] = subprocess.Popen(
            [sys.executable, *words],
            cwd=ROOT,
            env=environment,
            start_new_session=True,
            **how,  # type: ignore[call-overload]
        )
        if not self.implementation.kind.threads:
            processors = sorted(os.sched_getaffinity(0))[: self.threads]
            os.sched_setaffinity(process.pid, processors)
        return process


def list_devices(setting: Setting) -> list[dict[str, str]]:
    """Return address, name and driver of the devices that a process sees; none if it crashes."""
    process = setting.start("-m", "devices.describe", stdout=subprocess.PIPE)
    try:
        output, _ = process.communicate(timeout=START_TIMEOUT)
    except subprocess.TimeoutExpired:
        end(process)
        return []
    return list(json.loads(output)) if process.returncode == 0 else []


def run_tests(row: Row, setting: Setting, words: Sequence[str], limit: float, watch: Watch) -> None:
    """Add the results of pytest to a row, including tests that hang or crash."""
    source, target = os.pipe()
    command = [*_PYTEST, f"--timeout={limit}", f"--results-to={target}", *words]
    process = setting.start(
        *command, pass_fds=(target,), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    os.close(target)
    row.note = "interrupted"
    try:
        for result, total in _results(source, limit):
            row.results += [result] if result is not None else []
            watch(row, total)
        row.note = (
            "" if process.wait(START_TIMEOUT) in _ENDED else f"pytest ended with {process.poll()}"
        )
    except (TimeoutError, subprocess.TimeoutExpired) as error:
        row.note = str(error)
    finally:
        end(process)
        os.close(source)


_PYTEST = (
    *("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "devices.results_plugin"),
    *("-n", "1", "--max-worker-restart=1000", "--timeout-method=thread", "-m", "not slow"),
)
_ENDED = (0, 1)  # all passed, some failed


def _results(source: int, limit: float) -> Iterator[tuple[Result | None, int]]:
    """Yield each result as it arrives, with the number of tests."""
    total, rest, last = 0, b"", time.monotonic()
    while True:
        if not select.select([source], [], [], limit + START_TIMEOUT)[0]:
            raise TimeoutError(f"nothing came for {limit + START_TIMEOUT:.0f} s")
        piece = os.read(source, 1 << 16)
        if not piece:
            return
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            result = parse_line(line.decode(), time.monotonic() - last, limit)
            last = time.monotonic()
            total = result if isinstance(result, int) else total
            yield (None if isinstance(result, int) else result), total


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process and its children."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
