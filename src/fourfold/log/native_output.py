"""What drivers and runtimes write to standard error by themselves, logged instead of shown.

They write to the file descriptor, and there they are caught: while one of them builds a program or
opens a model, descriptor 2 is a pipe. Lines that such libraries are known to write go to the log;
all others, which Python, other threads and processes begun meanwhile write, go on to where they
were meant to.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from fourfold.forks import LockOverForks, call_in_child
from fourfold.log import Log

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
    """Descriptor 2 as a pipe, and a thread that reads it for as long as anybody may write."""

    def __init__(self) -> None:
        """OSError where this process has no standard error."""
        self._meant = os.dup(_STANDARD_ERROR)
        self._read, self._write = os.pipe()
        self._mark = b"\0" + os.urandom(8).hex().encode() + b"\n"
        self._drained = threading.Event()
        self.caught: list[str] = []
        threading.Thread(target=self._pump, name="fourfold-stderr", daemon=True).start()
        os.dup2(self._write, _STANDARD_ERROR)

    def restore(self) -> None:
        """Give the descriptor back, unless somebody else has put it elsewhere since."""
        if os.path.sameopenfile(_STANDARD_ERROR, self._write):
            os.dup2(self._meant, _STANDARD_ERROR)

    def end(self) -> list[str]:
        """Give the descriptor back, and tell the lines that were caught. A process that was begun
        meanwhile still writes to the pipe: what it says goes on for as long as it lives.
        """
        self.restore()
        os.write(self._write, self._mark)
        os.close(self._write)
        self._drained.wait()
        return self.caught

    def _pump(self) -> None:
        rest = b""
        while chunk := os.read(self._read, _CHUNK):
            rest += chunk
            before, mark, after = rest.partition(self._mark)
            if mark:
                self._sort(before)
                rest = after
                self._drained.set()
            whole, end, rest = rest.rpartition(b"\n")
            self._sort(whole + end)
        self._sort(rest)
        os.close(self._read)
        os.close(self._meant)

    def _sort(self, text: bytes) -> None:
        """Lines that are known are kept for the log; the others go on as they are."""
        for line in text.splitlines(keepends=True):
            plain = _COLOURS.sub(b"", line).strip()
            if not self._drained.is_set() and _CHATTER.fullmatch(plain):
                self.caught.append(plain.decode(errors="replace"))
            else:
                _write_all(self._meant, line)


class _Diverting:
    """The one diversion of this process, for as long as any thread asks for it."""

    def __init__(self) -> None:
        self._lock = LockOverForks()
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
                    return  # nothing that is written there is seen by anybody

    def end(self) -> list[str]:
        """The lines that were caught; whoever ends last has those of all."""
        with self._lock:
            self._users = max(self._users - 1, 0)
            if self._users or self._diversion is None:
                return []
            ended, self._diversion = self._diversion, None
            return ended.end()

    def _begin_child(self) -> None:
        """A forked child has no thread that reads: it writes to where the parent did."""
        if self._diversion is not None:
            self._diversion.restore()
        self._users, self._diversion = 0, None


_DIVERTING = _Diverting()


def leave_native_output() -> None:
    """Catch nothing in this process: it may be killed by a driver, whose last words are wanted."""
    _DIVERTING.allowed = False


@contextmanager
def native_output_logged(log: Log) -> Iterator[None]:
    """Around a call into a driver or a runtime that builds or opens: its own lines are logged at
    DEBUG, after it, and not shown.
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
