"""What drivers write to descriptor 2 is logged; whatever anybody else writes arrives, once."""

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
OF_OTHERS = (
    "WARNING: the disk is nearly full",
    "WARNING:root:as Python's logging has it",
    "Traceback (most recent call last):",
    "we had 2 warnings generated.",
    "",
    "kein Ärger",
)


def write(*lines: str) -> None:
    """As native code does, past all of Python's streams."""
    for line in lines:
        os.write(2, f"{line}\n".encode())


def debugged(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.name == "fourfold.trial"]


def test_known_lines_are_logged_and_others_shown(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "fourfold"), log_native_output(log):
        write(*CHATTER, *OF_OTHERS)
    assert debugged(caplog) == [line.replace("\x1b[1;31m", "").replace("\x1b[m", "")
                                for line in CHATTER]  # fmt: skip
    assert capfd.readouterr().err == "".join(f"{line}\n" for line in OF_OTHERS)


def test_without_listeners_they_are_gone(capfd: pytest.CaptureFixture[str]) -> None:
    with log_native_output(log):
        write(*CHATTER)
    write("2 warnings generated.")  # of somebody else, afterwards
    assert capfd.readouterr().err == "2 warnings generated.\n"


def test_a_line_without_an_end_and_one_in_pieces(capfd: pytest.CaptureFixture[str]) -> None:
    with log_native_output(log):
        for piece in ("2 warn", "ings gener", "ated.\nno ", "end"):
            os.write(2, piece.encode())
    assert capfd.readouterr().err == "no end"


def test_more_than_a_pipe_holds(capfd: pytest.CaptureFixture[str]) -> None:
    lines = [f"{number} of many" for number in range(20_000)]
    with log_native_output(log):
        write(*lines)
    assert capfd.readouterr().err.splitlines() == lines


def test_the_descriptor_comes_back_after_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    before = os.fstat(2)
    with suppress(ValueError), log_native_output(log):
        write("1 error generated.")
        raise ValueError("no build")
    assert os.path.samestat(os.fstat(2), before)
    assert capfd.readouterr().err == ""


def test_several_threads_at_once(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Each line arrives once: those of drivers in the log, those of Python where they should."""
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
    assert sorted(debugged(caplog)) == expected
    assert os.path.samestat(os.fstat(2), own)


def test_a_process_begun_meanwhile_is_heard_to_its_end(capfd: pytest.CaptureFixture[str]) -> None:
    """It has the pipe as its standard error for as long as it lives, which is longer."""
    said = "import sys; sys.stdin.read(); sys.stderr.write('2 warnings generated.\\nstill here\\n')"
    with log_native_output(log):
        child = subprocess.Popen([sys.executable, "-c", said], stdin=subprocess.PIPE)
    child.communicate()
    assert child.returncode == 0
    for thread in threading.enumerate():
        if thread.name == "fourfold-stderr":
            thread.join(20)
    assert capfd.readouterr().err == "2 warnings generated.\nstill here\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_writes_to_where_the_parent_did(capfd: pytest.CaptureFixture[str]) -> None:
    with log_native_output(log):
        child = os.fork()
        if child == 0:
            write("2 warnings generated.", "in the child")
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert capfd.readouterr().err == "2 warnings generated.\nin the child\n"


def test_a_process_without_standard_error_builds_as_well() -> None:
    script = (
        "import os; os.close(2)\n"
        "from fourfold.support.log import Log\n"
        "from fourfold.support.log.native_output import log_native_output\n"
        "with log_native_output(Log('x')): print('built')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, check=True)
    assert done.stdout.split() == [b"built"]


def test_a_process_that_a_driver_may_kill_hears_it_at_once() -> None:
    script = (
        "import os\n"
        "from fourfold.support.log import Log\n"
        "from fourfold.support.log.native_output import log_native_output\n"
        "from fourfold.support.log.native_output import stop_capturing_native_output\n"
        "stop_capturing_native_output()\n"
        "with log_native_output(Log('x')):\n"
        "    os.write(2, b'last words\\n')\n"
        "    os.abort()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert done.returncode != 0
    assert b"last words" in done.stderr
