"""Known driver output on file descriptor 2 is logged; all other output passes through once."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from contextlib import suppress

import pytest

from fourfold.support.log import Log
from fourfold.support.log.native_output import log_native_output

log = Log("trial")
CHATTER = (
    "2 warnings generated.",
    "1 warning and 3 errors generated.",
    "INFO: Created TensorFlow Lite XNNPACK delegate for CPU.",
    "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR",
    "W0000 00:00:1731765432.123456    4242 delegate.cc:79] nothing is delegated",
    "I1116 15:49:53.012345  4242 analysis_predictor.cc:1532] running",
    "2026-11-16 15:49:53.012345: I tensorflow/core/util/port.cc:153] oneDNN is on",
    "\x1b[1;31m2026-11-16 15:49:53.012345 [E:onnxruntime:, sequential.cc:10 f] failed\x1b[m",
)
OTHER_OUTPUT = (
    "WARNING: the disk is nearly full",
    "WARNING:root:as Python's logging has it",
    "Traceback (most recent call last):",
    "we had 2 warnings generated.",
    "",
    "kein Ärger",
)


def write(*lines: str) -> None:
    """Write like native code does, bypassing Python's streams."""
    for line in lines:
        os.write(2, f"{line}\n".encode())


def logged_lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.name == "fourfold.trial"]


def test_logs_known_lines_and_passes_others_through(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "fourfold"), log_native_output(log):
        write(*CHATTER, *OTHER_OUTPUT)
    assert logged_lines(caplog) == [line.replace("\x1b[1;31m", "").replace("\x1b[m", "")
                                for line in CHATTER]  # fmt: skip
    assert capfd.readouterr().err == "".join(f"{line}\n" for line in OTHER_OUTPUT)


def test_drops_known_lines_without_listeners(capfd: pytest.CaptureFixture[str]) -> None:
    with log_native_output(log):
        write(*CHATTER)
    write("2 warnings generated.")  # written afterwards by other code
    assert capfd.readouterr().err == "2 warnings generated.\n"


def test_handles_partial_lines(capfd: pytest.CaptureFixture[str]) -> None:
    with log_native_output(log):
        for piece in ("2 warn", "ings gener", "ated.\nno ", "end"):
            os.write(2, piece.encode())
    assert capfd.readouterr().err == "no end"


def test_handles_more_output_than_a_pipe_holds(capfd: pytest.CaptureFixture[str]) -> None:
    lines = [f"{number} of many" for number in range(20_000)]
    with log_native_output(log):
        write(*lines)
    assert capfd.readouterr().err.splitlines() == lines


def test_restores_the_descriptor_after_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    before = os.fstat(2)
    with suppress(ValueError), log_native_output(log):
        write("1 error generated.")
        raise ValueError("no build")
    assert os.path.samestat(os.fstat(2), before)
    assert capfd.readouterr().err == ""


def test_handles_output_of_several_threads(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Each line arrives once: driver lines in the log, Python lines on standard error."""
    count, own = 8, os.fstat(2)

    def build(number: int) -> None:
        for _ in range(25):
            with log_native_output(log):
                write(f"{number} warnings generated.")
                sys.stderr.write(f"thread {number}\n")

    sys.stderr.flush()
    with caplog.at_level(logging.DEBUG, "fourfold"):
        threads = [threading.Thread(target=build, args=(number,)) for number in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    shown = sorted(capfd.readouterr().err.splitlines())
    assert shown == sorted(f"thread {number}" for number in range(count) for _ in range(25))
    expected = [f"{number} warnings generated." for number in range(count) for _ in range(25)]
    assert sorted(logged_lines(caplog)) == expected
    assert os.path.samestat(os.fstat(2), own)


def test_output_of_a_child_process_arrives_until_it_exits(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The child has the pipe as its standard error and outlives the capture."""
    said = "import sys; sys.stdin.read(); sys.stderr.write('2 warnings generated.\\nstill here\\n')"
    with log_native_output(log):
        child = subprocess.Popen([sys.executable, "-c", said], stdin=subprocess.PIPE)
    child.communicate()
    assert child.returncode == 0
    for thread in threading.enumerate():
        if thread.name == "fourfold-stderr":
            thread.join(20)
    assert capfd.readouterr().err == "2 warnings generated.\nstill here\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork")
def test_forked_child_writes_to_the_original_descriptor(capfd: pytest.CaptureFixture[str]) -> None:
    with log_native_output(log):
        child = os.fork()
        if child == 0:
            write("2 warnings generated.", "in the child")
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert capfd.readouterr().err == "2 warnings generated.\nin the child\n"


def test_works_without_standard_error() -> None:
    script = (
        "import os; os.close(2)\n"
        "from fourfold.support.log import Log\n"
        "from fourfold.support.log.native_output import log_native_output\n"
        "with log_native_output(Log('x')): print('built')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, check=True)
    assert done.stdout.split() == [b"built"]


ABORT = """
import faulthandler, os
from fourfold.support.log import Log
from fourfold.support.log.native_output import log_native_output
faulthandler.enable()
with log_native_output(Log("x")):
    os.write(2, b"2 warnings generated.\\n")
    os.write(2, b"LLVM ERROR: No space left on device\\nlast words")
    os.abort()
"""


@pytest.mark.skipif(not hasattr(os, "posix_spawn"), reason="the platform has no posix_spawn")
def test_output_before_an_abort_is_not_lost() -> None:
    """The driver's last words and the dump of faulthandler arrive, whichever thread is faster."""
    for _ in range(10):
        done = subprocess.run([sys.executable, "-c", ABORT], capture_output=True, check=False)
        assert done.returncode != 0
        assert b"LLVM ERROR: No space left on device\nlast words" in done.stderr
        assert b"Fatal Python error: Aborted" in done.stderr


def test_output_before_an_abort_is_not_lost_without_capturing() -> None:
    script = "from fourfold.support.log.native_output import stop_capturing_native_output as stop\n"
    done = subprocess.run(
        [sys.executable, "-c", f"{script}stop()\n{ABORT}"], capture_output=True, check=False
    )
    assert done.returncode != 0
    assert b"2 warnings generated.\nLLVM ERROR" in done.stderr


@pytest.mark.skipif(not hasattr(os, "posix_spawn"), reason="the platform has no posix_spawn")
def test_capturing_leaves_no_process_behind() -> None:
    script = (
        "import os, threading\n"
        "from fourfold.support.log import Log\n"
        "from fourfold.support.log.native_output import log_native_output\n"
        "for _ in range(3):\n"
        "    with log_native_output(Log('x')): os.write(2, b'2 warnings generated.')\n"
        "for thread in threading.enumerate():\n"
        "    if thread.name == 'fourfold-stderr': thread.join()\n"
        "try: os.waitpid(-1, os.WNOHANG)\n"
        "except ChildProcessError: print('none')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert (done.stdout.split(), done.stderr) == ([b"none"], b"")
