"""The process of an isolated engine: it opens and runs what a session asks for.

Requests come from standard input, and answers go to what was standard output. The process ends
with its standard input, and thus with its session, even in the middle of a run.
"""

from __future__ import annotations

import os
import pickle
import signal
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import IO, Any

from fourfold.backends.cpu.messages import Message, read_message, write_message
from fourfold.backends.cpu.protocol import ModelValues, PartRunner, RunModel
from fourfold.backends.cpu.registry import find_engine
from fourfold.backends.cpu.runtimes import RuntimeEngine
from fourfold.errors import FourfoldError, UnsupportedError
from fourfold.support.log.native_output import stop_capturing_native_output


class EngineServer:
    """Answers the requests for one engine. Each method that does not start with an underscore is a
    request; `task` is the object that was pickled with it.
    """

    def __init__(self, name: str) -> None:
        self._engine = find_engine(name)
        self._part: PartRunner | None = None
        self._run: RunModel | None = None
        self._values: ModelValues | None = None

    def open_part(self, task: Any) -> Message:
        self._part = self._engine.open_part(*task)
        return {"shapes": {name: list(shape) for name, shape in self._part.shapes().items()}}, []

    def run_part(self, arrays: list[Any], wanted: list[bool] | None) -> Message:
        assert self._part is not None, "a part is opened before it runs"
        return {}, self._part.run(arrays, wanted)

    def reset_part(self) -> Message:
        assert self._part is not None, "a part is opened before it is reset"
        self._part.reset()
        return {}, []

    def try_file(self, task: Any) -> Message:
        assert isinstance(self._engine, RuntimeEngine), "only runtimes are isolated"
        return {"reason": self._engine.try_file(task)}, []

    def open_model(self, task: Any) -> Message:
        self._run = self._engine.open_model(*task)
        return {}, []

    def run_model(self) -> Message:
        assert self._run is not None, "a model is opened before it runs"
        return {}, list(self._run())

    def compute_values(self, task: Any) -> Message:
        self._values = self._engine.compute_values(*task)
        return {}, []

    def value(self, name: str) -> Message:
        assert self._values is not None, "values are computed before they are read"
        return {}, [self._values.value(name) if self._values.has(name) else None]


def main(name: str) -> None:
    """Answer requests for an engine until the session ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the session ends this process
    stop_capturing_native_output()
    # Not `sys.stdin`: Python's end would wait for the thread that reads it.
    incoming, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # runtimes may print
    requests: SimpleQueue[Message] = SimpleQueue()
    Thread(target=_receive, args=(incoming, requests.put), daemon=True).start()
    server = EngineServer(name)
    while True:
        _serve(server, requests.get(), answers)


def _receive(incoming: IO[bytes], put: Callable[[Message], None]) -> None:
    """Pass requests on; end the process with the last one."""
    try:
        while (message := read_message(incoming)) is not None and "end" not in message[0]:
            put(message)
    finally:
        os._exit(0)


def _serve(server: EngineServer, request: Message, answers: IO[bytes]) -> None:
    """Answer one request. An exception of a runtime ends the process like a crash.

    Results of LiteRT are views that nothing may hold at the next run.
    """
    try:
        record, arrays = _answer(server, *request)
    except FourfoldError as error:
        record, arrays = {"error": _error_record(error)}, []
    with suppress(BrokenPipeError):  # the session is gone
        write_message(answers, record, arrays)


def _answer(server: EngineServer, record: dict[str, Any], arrays: list[Any]) -> Message:
    arguments = dict(record["arguments"])
    if record["pickled"]:
        arguments["task"] = pickle.loads(arrays[0])  # from the session, which is trusted
    elif arrays:
        arguments["arrays"] = arrays
    answer: Message = getattr(server, record["request"])(**arguments)
    return answer


def _error_record(error: FourfoldError) -> dict[str, Any]:
    refusals = error.refusals if isinstance(error, UnsupportedError) else ()
    lines = [[one.node, one.op, one.reason] for one in refusals]
    kind = type(error).__name__
    return {"kind": kind, "what": error.what, "why": error.why, "fix": error.fix, "refusals": lines}
