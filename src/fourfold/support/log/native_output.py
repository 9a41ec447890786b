"""Capture what drivers and runtimes write to standard error, and log it instead.

Native libraries write to the file descriptor, so that is where their output is captured: while one
of them builds a program or opens a model, descriptor 2 is a pipe. Lines known to come from such
libraries go to the log. All other lines, from Python, other threads and child processes, are passed
on to the original standard error.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from fourfold.support.forks import ForkBlockingLock, call_in_child
from fourfold.support.log import Log

_STANDARD_ERROR = 2
_CHUNK = 1 << 16
_COLOURS = re.compile(rb"\x1b\[[0-9;]*m")
_CHATTER = re.compile(
    rb"""
    \d+\ (warnings?|errors?)(\ and\ \d+\ errors?)?\ generated\.        # Clang, inside of drivers
    | (VERBOSE|INFO|WARNING|ERROR):\ .*                                # LiteRT
      (TensorFlow|TfLite|LiteRT|XNNPACK|[Dd]elegate|tensor|custom\ op|Node\ number).*
    | See\ instructions:\ https://www\.tensorflow\.org/lite/.*
    | [IWEF]\d{4}\ \d\d:\d\d:\d+\.\d+\ +\d+\ [\w./-]+:\d+\]\ .*       # absl and glog
    | WARNING:\ .*\ absl::InitializeLog\(\).*
    | \d{4}-\d\d-\d\d\ \d\d:\d\d:\d\d\.\d+:\ [IWEF]\ [\w./-]+:\d+\]\ .*  # TensorFlow
    | \d{4}-\d\d-\d\d\ .*\ \[[VIWEF]:onnxruntime:.*                    # ONNX Runtime
    """,
    re.VERBOSE,
)


class _Diversion:
    """Descriptor 2 as a pipe, and a thread that reads it while any process can write to it."""

    def __init__(self) -> None:
        """Raise OSError if this process has no standard error."""
        self._meant = os.dup(_STANDARD_ERROR)
        self._read, self._write = os.pipe()
        self._mark = b"\0" + os.urandom(8).hex().encode() + b"\n"
        self._drained = threading.Event()
        self.caught: list[str] = []
        threading.Thread(target=self._pump, name="fourfold-stderr", daemon=True).start()
        os.dup2(self._write, _STANDARD_ERROR)

    def restore(self) -> None:
        """Restore the descriptor, unless other code has redirected it since."""
        if os.path.sameopenfile(_STANDARD_ERROR, self._write):
            os.dup2(self._meant, _STANDARD_ERROR)

    def end(self) -> list[str]:
        """Restore the descriptor and return the captured lines. A process started meanwhile may
        still write to the pipe: its output is passed on as long as it lives.
        """
        self.restore()
        os.write(self._write, self._mark)
        os.close(self._write)
        self._drained.wait()
        return self.caught

    def _pump(self) -> None:
        pending = b""
        while chunk := os.read(self._read, _CHUNK):
            pending += chunk
            before, mark, after = pending.partition(self._mark)
            if mark:
                self._sort(before)
                pending = after
                self._drained.set()
            lines, end, pending = pending.rpartition(b"\n")
            self._sort(lines + end)
        self._sort(pending)
        os.close(self._read)
        os.close(self._meant)

    def _sort(self, text: bytes) -> None:
        """Capture known lines for the log and pass the others on unchanged."""
        for line in text.splitlines(keepends=True):
            plain = _COLOURS.sub(b"", line).strip()
            if not self._drained.is_set() and _CHATTER.fullmatch(plain):
                self.caught.append(plain.decode(errors="replace"))
            else:
                _write_all(self._meant, line)


class _Diverting:
    """The single diversion of this process, active while any thread uses it."""

    def __init__(self) -> None:
        self._lock = ForkBlockingLock()
        self._users, self._diversion = 0, None  # type: int, _Diversion | None
        self.allowed = True
        call_in_child(self._begin_child)

    def begin(self) -> None:
        with self._lock:
            self._users += 1
            if self._diversion is None and self.allowed:
                try:
                    self._diversion = _Diversion()
                except OSError:
                    return  # there is no standard error to capture

    def end(self) -> list[str]:
        """Return the captured lines; the last user gets those of all users."""
        with self._lock:
            self._users = max(self._users - 1, 0)
            if self._users or self._diversion is None:
                return []
            ended, self._diversion = self._diversion, None
            return ended.end()

    def _begin_child(self) -> None:
        """Restore standard error in a forked child, which has no thread that reads the pipe."""
        if self._diversion is not None:
            self._diversion.restore()
        self._users, self._diversion = 0, None


_DIVERTING = _Diverting()


def stop_capturing_native_output() -> None:
    """Stop capturing in this process: a driver may kill it, and its last output must be visible."""
    _DIVERTING.allowed = False


@contextmanager
def log_native_output(log: Log) -> Iterator[None]:
    """Context manager for a call into a driver or runtime that builds or opens something. Captured
    lines are logged at DEBUG level afterwards and not shown.
    """
    _DIVERTING.begin()
    try:
        yield
    finally:
        for line in _DIVERTING.end():
            log.debug("%s", line)


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
