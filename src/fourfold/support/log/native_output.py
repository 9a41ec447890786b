"""Capture what drivers and runtimes write to standard error, and log it instead.

Native libraries write to the file descriptor, so that is where their output is captured: while one
of them builds a program or opens a model, descriptor 2 is a pipe. Lines known to come from such
libraries go to the log. All other lines, from Python, other threads and child processes, are passed
on to the original standard error, and so is everything in the pipe if the process is aborted.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from fourfold.support.forks import ForkBlockingLock, call_in_child
from fourfold.support.log import Log

_STANDARD_ERROR = 2
_CHUNK = 1 << 16
_POLL_INTERVAL_S, _MAX_POLLS = 0.005, 20  # while a line is unfinished
_SHELL = "/bin/sh"
# Standard input ends with the process that is watched. A line there releases the watcher.
_WATCH = "trap '' HUP INT QUIT TERM; read released || exec cat <&3"
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
    """Descriptor 2 as a pipe, and a thread that reads it while any process can write to it.

    A driver may abort the process before the thread has passed on its last output. The thread
    therefore removes output from the pipe only after passing it on, and a watcher process passes
    on what is still in the pipe when this process is gone.
    """

    def __init__(self) -> None:
        """Raise OSError if this process has no standard error."""
        self._meant = os.dup(_STANDARD_ERROR)
        read, self._write = os.pipe()
        self._pipe = _PipeReader(read)
        self._mark = b"\0" + os.urandom(8).hex().encode() + b"\n"
        self._drained = threading.Event()
        self.caught: list[str] = []
        self.watcher = _start_watcher(read, self._meant)
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
        polls = 0
        while not self._drained.is_set() and (data := self._pipe.peek()):
            before, mark, _ = data.partition(self._mark)
            text = before if mark or polls == _MAX_POLLS else self._finished(before)
            self._sort(text)
            self._pipe.drop(len(text + mark))
            polls = 0 if text else polls + 1
            if mark:
                self._drained.set()
            elif not text:
                time.sleep(_POLL_INTERVAL_S)  # for the end of the line
        if self.watcher is not None:
            self.watcher.release()
        while data := self._pipe.peek():
            _write_all(self._meant, data)
            self._pipe.drop(len(data))
        self._pipe.close()
        os.close(self._meant)

    def _finished(self, data: bytes) -> bytes:
        """Return the finished lines; of a very long line all but the end, which may be a mark."""
        lines, end, rest = data.rpartition(b"\n")
        return data[: -len(self._mark)] if len(rest) > _CHUNK // 2 else lines + end

    def _sort(self, text: bytes) -> None:
        """Capture known lines for the log and pass the others on unchanged."""
        for line in text.splitlines(keepends=True):
            plain = _COLOURS.sub(b"", line).strip()
            if _CHATTER.fullmatch(plain):
                self.caught.append(plain.decode(errors="replace"))
            else:
                _write_all(self._meant, line)


class _PipeReader:
    """Reads a pipe and, on Linux, leaves the data there until it is dropped."""

    def __init__(self, pipe: int) -> None:
        self._pipe, self._seen = pipe, b""
        self._tee = None
        with suppress(AttributeError, OSError, TypeError):  # not on Linux
            self._tee = ctypes.CDLL(None, use_errno=True).tee
        self._copy = (0, 0) if self._tee is None else os.pipe()

    def peek(self) -> bytes:
        """Return the data that was not dropped yet; waits for the first byte. b'' at the end."""
        while self._tee is not None:
            size = self._tee(self._pipe, self._copy[1], _CHUNK, 0)
            if size >= 0:
                return os.read(self._copy[0], size) if size else b""
            if ctypes.get_errno() != errno.EINTR:  # such as in a sandbox that forbids the call
                self._tee = None
        self._seen += os.read(self._pipe, _CHUNK)
        return self._seen

    def drop(self, size: int) -> None:
        """Remove data that was returned before."""
        self._seen = self._seen[size:]
        while self._tee is not None and size:
            size -= len(os.read(self._pipe, size))

    def close(self) -> None:
        for descriptor in {self._pipe, *self._copy} - {0}:
            os.close(descriptor)


class _Watcher:
    """A process that passes the rest of a pipe on, if this process ends without releasing it."""

    def __init__(self, process: int, lifeline: int) -> None:
        self._process, self._lifeline = process, lifeline

    def release(self) -> None:
        """End the watcher, which passes nothing on."""
        with suppress(OSError):  # other code has ended it
            os.write(self._lifeline, b"\n")
        self.forget()
        with suppress(ChildProcessError):  # other code has waited for it
            os.waitpid(self._process, 0)

    def forget(self) -> None:
        """Close the lifeline, whose other holders the watcher still waits for."""
        os.close(self._lifeline)


def _start_watcher(pipe: int, target: int) -> _Watcher | None:
    """Start a watcher that passes a pipe on to a target; None where that is not possible."""
    if not hasattr(os, "posix_spawn"):  # as on Windows
        return None
    theirs, lifeline = os.pipe()
    sources = (theirs, target, pipe)
    actions = [(os.POSIX_SPAWN_DUP2, one, n) for one, n in zip(sources, (0, 1, 3), strict=True)]
    try:
        if min(sources) <= _STANDARD_ERROR:  # this process has no standard input or output
            raise OSError
        environment = {"PATH": os.defpath}
        process = os.posix_spawn(_SHELL, ["sh", "-c", _WATCH], environment, file_actions=actions)
    except OSError:  # such as a system without a shell
        os.close(lifeline)
        return None
    finally:
        os.close(theirs)
    return _Watcher(process, lifeline)


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
            if self._diversion.watcher is not None:
                self._diversion.watcher.forget()
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
