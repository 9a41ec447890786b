"""A plan that is open on another machine: steps in, one line of answer each."""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from fourfold.errors import BuildError, DeviceError
from fourfold.players.cleanup import cleanup_on_error
from fourfold.players.remote.machine import Machine

PATIENCE = 600.0  # seconds for an answer: old phones build kernels for minutes
AT_ONCE = 64  # steps that are sent before their answers are read: they fit into any pipe
_OUT_OF_MEMORY = "memory"


class StepFailed(DeviceError):
    """The driver there did not do a step."""

    out_of_memory = False


class PlanProcess:
    """The player on another machine with one plan open, until it is closed."""

    def __init__(self, machine: Machine, title: str, text: str, *arguments: str) -> None:
        self._machine, self._title, self._text = machine, title, text
        self._process = machine.link.open(machine.command(*arguments, "--json", "--steps", "-"))
        with cleanup_on_error(self.close):
            self.opened: dict[str, Any] = self._answer()["opened"]

    def ask(self, step: str) -> dict[str, Any]:
        """The answer to a step; a StepFailed where the driver refuses it."""
        answer = self.ask_all([step])[0]
        self._raise(answer)
        return answer

    def ask_all(self, steps: Sequence[str]) -> list[dict[str, Any]]:
        """The answers to all steps, those of refused ones with an 'error'."""
        answers = []
        for start in range(0, len(steps), AT_ONCE):
            some = steps[start : start + AT_ONCE]
            self._send("".join(f"{step}\n" for step in some))
            answers += [self._line() for _ in some]
        return answers

    def _send(self, text: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(text)
            self._process.stdin.flush()
        except OSError:
            raise self._ended() from None

    def _answer(self) -> dict[str, Any]:
        answer = self._line()
        self._raise(answer)
        return answer

    def _raise(self, answer: dict[str, Any]) -> None:
        if "error" not in answer:
            return
        said, status = str(answer["error"]), str(answer.get("status", ""))
        where = self._machine.link.name
        if status == "build":
            what = f"the kernels do not build on {where}"
            raise BuildError(what, str(answer.get("log") or said), self._text)
        fix = "try again; if it stays, look for another driver or use another device"
        if status == _OUT_OF_MEMORY:
            fix = "use precision='mixed', or a smaller batch"
        error = StepFailed(f"{self._title} failed on {where}", said, fix)
        error.out_of_memory = status == _OUT_OF_MEMORY
        raise error

    def _line(self) -> dict[str, Any]:
        """The next line that is an answer; drivers, and adb of old phones, say more."""
        assert self._process.stdout is not None
        with self._watched():
            for line in self._process.stdout:
                if line.startswith("{"):
                    with contextlib.suppress(ValueError):
                        found: dict[str, Any] = json.loads(line)
                        return found
        raise self._ended()

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """A process that says nothing for long is ended, which ends the wait for it."""
        watch = threading.Timer(PATIENCE, self._process.kill)
        watch.daemon = True
        watch.start()
        try:
            yield
        finally:
            watch.cancel()

    def _ended(self) -> StepFailed:
        """The process is gone: the cable is out, or a driver took it down."""
        said = self._end()
        link = self._machine.link
        link.run("true")  # a ConnectionLost where it is the cable
        return StepFailed(
            f"the driver on {link.name} died of {self._title}",
            said or f"its process ended with {self._process.returncode}",
            "try another driver, or launches='list'",
        )

    def _end(self) -> str:
        with contextlib.suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        errors = self._process.stderr
        said = "" if errors is None or errors.closed else errors.read()
        lines = said.strip().splitlines()
        return lines[-1] if lines else ""

    def close(self) -> None:
        """End it, and what it holds there."""
        self._end()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            with contextlib.suppress(OSError):
                if stream is not None:
                    stream.close()
