"""Run a plan on another machine: a process there keeps it open, arrays are sent as files."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from fourfold.backends.cleanup import cleanup_on_error
from fourfold.backends.probing import with_known_facts
from fourfold.backends.protocol import Into, Outputs
from fourfold.backends.remote.answers import CheckedAnswer, array_in, unusable
from fourfold.backends.remote.devices import acquire_machine, machine_of, release_machine
from fourfold.backends.remote.steps import PlanProcess, send_plan
from fourfold.device import DeviceInfo
from fourfold.errors import DeviceError, FourfoldError, ModelError
from fourfold.plan import Container, Plan, Port, Program
from fourfold.plan.data import Buffer


class Player:
    """A plan ready to run on a device of another machine."""

    def __init__(self, info: DeviceInfo, plan: Plan, binary: bytes | None = None) -> None:
        self.info, self.plan = info, plan
        self._machine, self._open = acquire_machine(info), True
        self._process: PlanProcess | None = None
        self._file = self._machine.new_name(".fourfold")
        with cleanup_on_error(self.close):
            # The C player accepts a plan only if the file's facts say that the device supports it.
            send_plan(self._machine, self._file, with_known_facts(info), plan, binary)
            text = plan.program.text
            self._process = PlanProcess(
                self._machine, plan.name, text, self._file, "--device", str(info.ordinal)
            )
            opened = self._process.opened
            self.timings = {name: opened.seconds(name) for name in ("build", "open")}
        self.timings["upload"] = max(self.timings.pop("open") - self.timings["build"], 0.0)

    def _ask(self, step: str) -> CheckedAnswer:
        if self._process is None:
            raise DeviceError(
                "the plan is no longer open", "close() was called", "use it before close()"
            )
        return self._process.ask(step)

    def run(self, arrays: Sequence[np.ndarray], into: Into | None = None) -> Outputs:
        """Return the outputs for these inputs, in port order; see the protocol."""
        self._put(arrays)
        self._ask("run 1")
        return self._take(into)

    def _put(self, arrays: Sequence[np.ndarray]) -> None:
        for number, array in enumerate(arrays):
            if array.nbytes:
                self._send(f"input {number}", array)

    def _send(self, step: str, array: np.ndarray) -> None:
        """Run a step with the bytes of an array, passed as a temporary file."""
        file = self._machine.send(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        self._ask(f"{step} {file}")
        self._ask(f"forget {file}")

    def _fetch(self, file: str) -> bytes:
        """Return the content of a file that a step has written, and remove it."""
        content = self._machine.fetch(file)
        self._ask(f"forget {file}")
        return content

    def _take(self, into: Into | None) -> Outputs:
        """Return the requested outputs, which are fetched in one file."""
        targets = [None] * len(self.plan.outputs) if into is None else list(into)
        skipped = [into is not None and array is None for array in targets]
        results: Outputs = []
        file, content, start = self._read_all(skipped), b"", 0
        if file is not None:
            content = self._fetch(file)
        for port, array, skip in zip(self.plan.outputs, targets, skipped, strict=True):
            if skip:
                results.append(None)
                continue
            values = _array(port, content, start, self._machine.link.name)
            start += port.type.bytes
            if array is not None:
                array[...] = values.reshape(array.shape)
            results.append(values if array is None else array)
        return results

    def _read_all(self, skipped: Sequence[bool]) -> str | None:
        file = self._machine.new_name()
        pairs = enumerate(zip(self.plan.outputs, skipped, strict=True))
        read = [number for number, (port, skip) in pairs if not skip and port.type.bytes]
        for number in read:
            self._ask(f"output {number} {file}")
        return file if read else None

    def run_bound(self, arrays: Sequence[Any], into: Sequence[Any] | None = None) -> Outputs:
        """Run with arrays: memory of the other machine cannot be bound."""
        return self.run(arrays, into)

    def bound_run(self, arrays: Sequence[Any], into: Sequence[Any]) -> None:
        """Return None: memory of the other machine cannot be bound."""

    def open_slot(self, staged: bool = True) -> None:
        """Return None: only one run at a time is supported."""

    def replay(self) -> None:
        self._ask("replay 1")

    def replay_seconds(self, runs: int) -> list[float]:
        return self._ask(f"replay {runs}").all_seconds("seconds", min(runs, 1))

    def run_seconds(self, arrays: Sequence[np.ndarray], runs: int) -> list[float]:
        self._put(arrays)
        return self._ask(f"run {runs}").all_seconds("seconds", min(runs, 1))

    def reset(self) -> None:
        self._ask("reset")

    def profile(self, arrays: Sequence[Any], runs: int) -> list[float]:
        self._put(arrays)
        launches = len(self.plan.launches)
        return self._ask(f"profile {runs}").all_seconds("seconds", launches)[:launches]

    def binary(self) -> bytes:
        """Return the binary, which the C player writes as an entry of a store."""
        entry = self._ask(f"binary {self._machine.new_name()}").file_name("file")
        try:
            return bytes(Container(self._fetch(entry), "the binary").section(1, "binary"))
        except ModelError as error:
            raise unusable(self._machine.link.name, f"{error.what}: {error.why}") from error

    def poison(self) -> None:
        for number, buffer in enumerate(self.plan.buffers):
            if buffer.kind in ("arena", "output") and buffer.allocated:
                self._ask(f"blank {number} 0 {buffer.allocated}")

    def close(self) -> None:
        """End the process on the machine, and remove its files."""
        if not self._open:
            return
        self._open = False
        with suppress(FourfoldError, OSError):  # the machine may be unreachable
            if self._process is not None:
                self._process.close()
            self._machine.remove(self._file)
        self._process = None
        release_machine(self.info)


def _array(port: Port, content: bytes, start: int, machine: str) -> np.ndarray:
    piece = array_in(content, np.dtype(np.uint8), port.type.bytes, start, machine)
    return piece.view(port.type.dtype.numpy).reshape(port.type.shape).copy()


def build_binary(info: DeviceInfo, program: Program) -> bytes:
    """Build a program with the driver on the machine, without running it."""
    plan = Plan(
        name="binary",
        program=program,
        buffers=(Buffer("arena", "arena", 64), Buffer("constants", "constants", 0)),
        launches=(),
        inputs=(),
        outputs=(),
        constants=np.zeros(0, np.uint8),
        precision="fp32",
    )
    with machine_of(info):
        player = Player(info, plan)
        try:
            return player.binary()
        finally:
            player.close()
