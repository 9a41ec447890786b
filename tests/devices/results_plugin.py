"""A pytest plugin that writes each result immediately as a JSON line to a file descriptor, and
fails tests that a simulator complains about.

Tests run in a pytest-xdist worker, so that a crash affects only one test.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator, Sequence
from pathlib import Path

import numpy as np
import pytest
from devices.implementations import LOG
from devices.results import CRASHED

from fourfold.backends.opencl import binding as cl
from fourfold.backends.opencl.devices import context_of, devices

BUFFER_COUNT, BUFFER_BYTES = 128, 128 << 10  # more takes the simulator minutes
MAX_REASON_CHARACTERS = 300
MAX_COMPLAINT_LINES = 3


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--results-to", type=int, default=None, help="open file descriptor for the results"
    )


def pytest_configure(config: pytest.Config) -> None:
    target, works = config.getoption("--results-to"), hasattr(config, "workerinput")
    if target is not None and not works:
        config.pluginmanager.register(_ResultWriter(target))
    if works and "OCLGRIND_UNINITIALIZED" in os.environ:
        _use_large_buffers()
        cl.Queue.fill = _fill_by_writing  # type: ignore[method-assign]


def _use_large_buffers() -> None:
    """Create large buffers first. Oclgrind tracks writes to a buffer only up to the size of the
    first buffer with its number, and complains about the rest.
    """
    context = context_of(devices()[0])
    for buffer in [cl.Buffer(context, BUFFER_BYTES) for _ in range(BUFFER_COUNT)]:
        buffer.release()


def _fill_by_writing(
    queue: cl.Queue, buffer: cl.Buffer, pattern: bytes, offset: int, size: int
) -> None:
    """Fill a buffer with a write. Oclgrind assumes that a filled buffer is as long as the pattern,
    and complains about later accesses behind it.
    """
    queue.write(buffer, np.frombuffer(pattern * (size // len(pattern)), np.uint8), offset)


class _ResultWriter:
    """Writes a line for each finished test, and one for their number."""

    def __init__(self, target: int) -> None:
        self._target = target

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        self._tell({"tests": len(ids)})

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome != "passed":
            words = reason_of(report)
            outcome = CRASHED if "crashed while running" in words else report.outcome
            line = {"test": report.nodeid, "outcome": outcome, "words": words}
            self._tell({**line, "seconds": round(report.duration, 3)})

    def _tell(self, data: object) -> None:
        os.write(self._target, f"{json.dumps(data)}\n".encode())


def reason_of(report: pytest.TestReport) -> str:
    """Return in one line why a test was skipped or failed."""
    what = report.longrepr
    if report.passed or what is None:
        return ""
    if isinstance(what, tuple):
        return str(what[2]).removeprefix("Skipped: ")
    crash = getattr(what, "reprcrash", None)
    words = str(crash.message if crash is not None else what).split("\n")
    return " ".join(word.strip() for word in words if word.strip())[:MAX_REASON_CHARACTERS]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    """Fail a test if Oclgrind wrote to its log while the test ran."""
    log = Path(os.environ.get(LOG, os.devnull))
    start = log.stat().st_size if log.is_file() else 0
    try:
        return (yield)
    finally:
        said = _complaint(log, start)
        if said:
            pytest.fail(f"the simulator says: {said}", pytrace=False)


def _complaint(log: Path, start: int) -> str:
    if not log.is_file():
        return ""
    with log.open(encoding="utf-8", errors="replace") as file:
        file.seek(start)
        lines = [line.strip() for line in file if line.strip()]
    return " / ".join(lines[:MAX_COMPLAINT_LINES])
