"""IsolatedEngine: a CPU engine in another process, for models that may be hostile.

A model that crashes the engine ends only that process, and the session raises an error with the
engine's last words.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from fourfold.backends.cleanup import cleanup_on_error
from fourfold.backends.cpu.messages import Message, read_message, write_message
from fourfold.backends.cpu.protocol import CpuEngine, Lock, RunModel, Wanted
from fourfold.backends.cpu.runtimes import RuntimeEngine
from fourfold.errors import (
    MALFORMED,
    DeviceError,
    FourfoldError,
    InputError,
    ModelError,
    Refusal,
    UnsupportedError,
)
from fourfold.types import Shape

if TYPE_CHECKING:
    from fourfold.formats import Model
    from fourfold.formats.units import Unit
    from fourfold.plan import Part

_CHILD = """
import sys
module, engine, *sys.path[:] = sys.argv[1:]
__import__(module, fromlist=["main"]).main(engine)
"""
_MODULE = f"{__package__}.engine_process"
_END_TIMEOUT_S = 5.0
_MAX_LINES, _SHOWN_LINES = 50, 5  # of what the engine prints
_ERRORS = {kind.__name__: kind for kind in (ModelError, InputError, DeviceError)}


class EngineProcess:
    """A process that runs one engine. Not for two threads at once."""

    def __init__(self, engine: RuntimeEngine) -> None:
        self._title = engine.title
        command = [sys.executable, "-c", _CHILD, _MODULE, engine.name, *sys.path]
        pipe = subprocess.PIPE
        try:
            # In a session of its own, Ctrl-C does not reach it: it ends with its standard input.
            self._process = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
            )
        except OSError as error:
            what, fix = f"{self._title} cannot be isolated", "open the model without isolate"
            raise DeviceError(what, f"no process can be started: {error}", fix) from error
        requests, answers = self._process.stdin, self._process.stdout
        assert requests is not None
        assert answers is not None
        self._requests, self._answers = requests, answers
        self._lines: deque[bytes] = deque(maxlen=_MAX_LINES)
        self._printing = threading.Thread(
            target=_collect, args=(self._process.stderr, self._lines), daemon=True
        )
        self._printing.start()
        self._end = weakref.finalize(self, _end, self._process, os.getpid())

    def ask(self, request: str, task: object = None, **arguments: Any) -> Message:
        """Return the answer to a request with an object, with `arrays`, or with other arguments."""
        arrays = arguments.pop("arrays", ())
        if task is not None:
            arrays = [np.frombuffer(_pickled(task), np.uint8)]
        record = {"request": request, "arguments": arguments, "pickled": task is not None}
        if not self._end.alive:
            raise self._failure(request, "it has ended")
        with cleanup_on_error(self.close):  # an interrupted answer would be that to the next one
            try:
                write_message(self._requests, record, arrays)
                answer = read_message(self._answers)
                error = None if answer is None else answer[0].get("error")
                raised = None if error is None else _read_error(error)
            except (BrokenPipeError, EOFError):
                answer = None
            except (*MALFORMED, MemoryError) as malformed:
                why = f"its answer is malformed: {malformed!r}"
                raise self._failure(request, why) from malformed
            if answer is None:
                raise self._failure(request, self._describe_end())
        if raised is not None:
            raise raised
        return answer

    def _describe_end(self) -> str:
        """Return how the process ended, and what it printed last."""
        try:
            status = self._process.wait(_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return "it no longer answers"
        self._printing.join(_END_TIMEOUT_S)
        end = signal.Signals(-status).name if status < 0 else f"exit status {status}"
        lines = [line.decode(errors="replace").strip() for line in self._lines]
        shown = [line for line in lines if line and not line.startswith("INFO:")][-_SHOWN_LINES:]
        return f"it ended with {end}, after printing: {' / '.join(shown) or 'nothing'}"

    def _failure(self, request: str, why: str) -> DeviceError:
        return DeviceError(
            f"{self._title} crashed in its isolated process ({request.replace('_', ' ')})",
            f"the process runs only this model; {why}",
            "the model may be damaged or hostile: check where it comes from, or open it again",
        )

    def close(self) -> None:
        """End the process."""
        self._end()


def _end(process: subprocess.Popen[bytes], owner: int) -> None:
    if os.getpid() != owner:  # a forked child has no such process
        return
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        with process.stdin as requests, process.stdout:
            write_message(requests, {"end": True})  # a forked process may hold the pipe open
    except OSError:
        process.kill()
    try:
        process.wait(_END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _collect(stream: IO[bytes], lines: deque[bytes]) -> None:
    """Collect what the process prints."""
    with stream:
        lines.extend(stream)


def _pickled(task: object) -> bytes:
    try:
        return pickle.dumps(task)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        why = f"it cannot be sent to the process of the engine: {error}"
        raise InputError("the model cannot be isolated", why, "leave out isolate") from error


def _read_error(record: Mapping[str, Any]) -> FourfoldError:
    """Return the error that another process raised."""
    what, why, fix = (str(record[name]) for name in ("what", "why", "fix"))
    if record["kind"] == UnsupportedError.__name__:
        refusals = [Refusal(*map(str, items)) for items in record["refusals"]]
        return UnsupportedError(what, refusals, fix)
    return _ERRORS[record["kind"]](what, why, fix)


class IsolatedEngine(RuntimeEngine):
    """An engine whose parts and models run in processes of their own."""

    def __init__(self, engine: CpuEngine) -> None:
        if not isinstance(engine, RuntimeEngine):
            what, why = f"{engine.title} cannot be isolated", "it is not a RuntimeEngine"
            raise DeviceError(what, why, "open the model without isolate")
        self._engine = engine
        self.name, self.title, self.install = engine.name, engine.title, engine.install

    def installed(self) -> bool:
        return self._engine.installed()

    def version(self) -> str:
        return self._engine.version()

    def is_tried(self, unit: Unit) -> bool:
        return self._engine.is_tried(unit)

    def try_file(self, content: bytes) -> str:
        process = EngineProcess(self._engine)
        try:
            return str(process.ask("try_file", content)[0]["reason"])
        except DeviceError as error:
            return f"{error.what}: {error.why}"
        finally:
            process.close()

    def open_part(self, part: Part, threads: int) -> IsolatedPart:
        return IsolatedPart(EngineProcess(self._engine), part, threads)

    def open_model(
        self, model: str | bytes, inputs: Mapping[str, np.ndarray], threads: int | None
    ) -> RunModel:
        process = EngineProcess(self._engine)
        process.ask("open_model", (model, dict(inputs), threads))
        return lambda: process.ask("run_model")[1]

    def compute_values(self, model: Model, inputs: Sequence[np.ndarray]) -> IsolatedValues:
        return IsolatedValues(EngineProcess(self._engine), model, inputs)


class IsolatedPart:
    """A part that is open in another process. Results are new arrays."""

    def __init__(self, process: EngineProcess, part: Part, threads: int) -> None:
        self._process, self._count = process, len(part.outputs)
        with cleanup_on_error(process.close):
            record, _ = process.ask("open_part", (part, threads))
        self._shapes = {str(k): tuple(map(int, v)) for k, v in record["shapes"].items()}

    def run(self, arrays: Sequence[np.ndarray], wanted: Wanted | None = None) -> list[Any]:
        needed = None if wanted is None else list(wanted)
        _, results = self._process.ask("run_part", arrays=arrays, wanted=needed)
        if len(results) != self._count:
            what, why = "a part has other results than it should", f"they are {len(results)}"
            raise DeviceError(what, why, "check where the model comes from")
        return results

    def shapes(self) -> Mapping[str, Shape]:
        """Return the shapes of results that only the engine knows."""
        return self._shapes

    def direct(self, inputs: Mapping[str, str], outputs: Mapping[str, str], lock: Lock) -> None:
        """Return None: every run goes through the other process."""

    def reset(self) -> None:
        """Reset all states."""
        self._process.ask("reset_part")

    def close(self) -> None:
        """End the process."""
        self._process.close()


class IsolatedValues:
    """The values of a model after a run in another process."""

    def __init__(self, process: EngineProcess, model: Model, inputs: Sequence[np.ndarray]) -> None:
        self._process = process
        process.ask("compute_values", (model, list(inputs)))

    def _value(self, value: str) -> np.ndarray | None:
        array: np.ndarray | None = self._process.ask("value", name=value)[1][0]
        return array

    def has(self, value: str) -> bool:
        return self._value(value) is not None

    def value(self, value: str) -> np.ndarray:
        array = self._value(value)
        assert array is not None, f"the engine has no value '{value}'"
        return array
