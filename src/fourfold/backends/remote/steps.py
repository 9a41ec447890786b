"""A plan on another machine: sent as a file, opened by the C player, and run step by step."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fourfold.backends.cleanup import cleanup_on_error
from fourfold.backends.remote.answers import CheckedAnswer, read_object
from fourfold.backends.remote.machine import Machine, error_text
from fourfold.device import DeviceInfo
from fourfold.errors import BuildError, DeviceError
from fourfold.plan import CompiledModel, Plan
from fourfold.store.draft import Draft
from fourfold.store.keys import digest, program_parts

ANSWER_TIMEOUT_S = 600.0  # old phones build kernels for minutes
MAX_PENDING_STEPS = 64  # steps sent before their answers are read: they fit into any pipe
_OUT_OF_MEMORY = "memory"


def send_plan(
    machine: Machine, name: str, device: DeviceInfo, plan: Plan, binary: bytes | None = None
) -> None:
    """Copy a plan to the machine under a name, with its program's binary if there is one."""
    inputs, outputs = (tuple(one.name for one in ports) for ports in (plan.inputs, plan.outputs))
    draft = Draft()
    number = draft.add_model(plan.name, digest(plan.program.text.encode()), 0)
    draft.add_compiled(number, device, CompiledModel.of_plan(plan, inputs, outputs), {})
    if binary is not None:
        draft.add_binary(program_parts(plan.program, device), binary)
    with tempfile.TemporaryDirectory(prefix="fourfold-") as folder:
        path = Path(folder) / name
        draft.write(path)
        machine.link.push(path, machine.path(name))


class StepFailed(DeviceError):
    """The driver failed to execute a step."""

    out_of_memory = False


class PlanProcess:
    """The C player on another machine with one plan open, until it is closed."""

    def __init__(self, machine: Machine, title: str, text: str, *arguments: str) -> None:
        self._machine, self._title, self._text = machine, title, text
        self._process = machine.link.open(machine.command(*arguments, "--json", "--steps", "-"))
        with cleanup_on_error(self.close):
            self.opened = self.read(self._answer()).inner("opened")

    def ask(self, step: str) -> CheckedAnswer:
        """Return the answer to a step; raises a StepFailed if the driver rejects it."""
        answer = self.ask_all([step])[0]
        self._raise(answer)
        return self.read(answer)

    def read(self, answer: dict[str, Any]) -> CheckedAnswer:
        """Return an answer whose fields are checked when they are read."""
        return CheckedAnswer(answer, self._machine.link.name)

    def ask_all(self, steps: Sequence[str]) -> list[dict[str, Any]]:
        """Return the answers to all steps; those of failed ones have an 'error'."""
        answers = []
        for start in range(0, len(steps), MAX_PENDING_STEPS):
            batch = steps[start : start + MAX_PENDING_STEPS]
            self._send("".join(f"{step}\n" for step in batch))
            answers += [self._line() for _ in batch]
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
        said, status = error_text(answer), answer.get("status")
        where = self._machine.link.name
        if status == "build":
            what = f"the kernels do not build on {where}"
            log = answer.get("log")
            raise BuildError(what, log if log and isinstance(log, str) else said, self._text)
        fix = "try again; if it persists, try another driver or device"
        if status == _OUT_OF_MEMORY:
            fix = "use precision='mixed', or a smaller batch"
        error = StepFailed(f"{self._title} failed on {where}", said, fix)
        error.out_of_memory = status == _OUT_OF_MEMORY
        raise error

    def _line(self) -> dict[str, Any]:
        """Return the next answer; drivers, and adb of old phones, print other lines as well."""
        assert self._process.stdout is not None
        with self._watched():
            for line in self._process.stdout:
                answer = read_object(line)
                if answer is not None:
                    return answer
        raise self._ended()

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Context manager that kills a process without an answer, which ends the wait for it."""
        watch = threading.Timer(ANSWER_TIMEOUT_S, self._process.kill)
        watch.daemon = True
        watch.start()
        try:
            yield
        finally:
            watch.cancel()

    def _ended(self) -> StepFailed:
        """Return the error for a process that ended; raises a ConnectionLost if the
        link is down.
        """
        said = self._end()
        link = self._machine.link
        link.run("true")  # raises a ConnectionLost if the link is down
        return StepFailed(
            f"the driver on {link.name} crashed while running {self._title}",
            said or f"its process exited with {self._process.returncode}",
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
        """End the process."""
        self._end()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            with contextlib.suppress(OSError):
                if stream is not None:
                    stream.close()
