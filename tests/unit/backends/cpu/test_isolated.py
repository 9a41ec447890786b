"""Engines in another process give the same results, and their crashes are errors."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from fuzz.written_models import MODELS
from onnx_writer import graph, model, node
from runtimes import needs_litert
from tflite_writer import Operator, Tensor, write

from fourfold.backends.cpu import isolated
from fourfold.backends.cpu.isolated import EngineProcess, IsolatedEngine
from fourfold.backends.cpu.messages import read_message, write_message
from fourfold.backends.cpu.registry import find_engine
from fourfold.errors import DeviceError, ModelError, UnsupportedError
from fourfold.formats import read_model
from fourfold.plan.targets import NUMPY
from fourfold.session import Session

WORDS = "F0000 check.cc:12] Check failed: size > 0"


class Crash:
    """Crashes the process that reads it from a message, like a hostile model."""

    def __reduce__(self) -> tuple[Any, ...]:
        return exec, (f"import os; os.write(2, b'{WORDS}\\n'); os.abort()",)


def damaged_file() -> bytes:
    """Return a file with an operator that has the options of another one."""
    reshape = Operator("RESHAPE", ["x"], ["y"], "SplitVOptions", {"NumSplits": 1})
    return write([Tensor("x", (1, 4)), Tensor("y", (1, 4))], [reshape], ["x"], ["y"])


def is_running(process: int) -> bool:
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for_end(process: int) -> None:
    for _ in range(600):
        if not is_running(process):
            return
        time.sleep(0.05)
    raise AssertionError(f"process {process} did not end")


@pytest.fixture
def process() -> EngineProcess:
    return EngineProcess(find_engine("litert"))  # type: ignore[arg-type]


@needs_litert
@pytest.mark.parametrize("name", MODELS)
def test_results_are_the_same(name: str) -> None:
    content = MODELS[name]()
    with (
        Session(content, device="cpu", cache=None) as ours,
        Session(content, device="cpu", cache=None, isolate=True) as theirs,
    ):
        rng = np.random.default_rng(0)
        inputs = {one.name: rng.uniform(0, 4, one.shape).astype(one.dtype) for one in ours.inputs}
        for _ in range(2):
            expected, results = ours.run(inputs), theirs.run(inputs)
            assert all(np.array_equal(results[key], expected[key]) for key in expected)
        assert [one.shape for one in theirs.outputs] == [one.shape for one in ours.outputs]


@needs_litert
def test_crash_is_an_error_with_the_last_words(process: EngineProcess) -> None:
    with pytest.raises(DeviceError) as caught:
        process.ask("open_part", Crash())
    assert caught.value.what == "LiteRT crashed in its isolated process (open part)"
    assert f"SIGABRT, after printing: {WORDS}" in caught.value.why
    with pytest.raises(DeviceError, match="it has ended"):
        process.ask("run_model")


@needs_litert
def test_crash_while_an_operator_is_tried_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    ask = EngineProcess.ask
    monkeypatch.setattr(
        EngineProcess, "ask", lambda self, request, task: ask(self, request, Crash())
    )
    engine = find_engine("litert", isolate=True)
    assert isinstance(engine, IsolatedEngine)
    assert "SIGABRT" in engine.try_file(b"")


@needs_litert
def test_errors_keep_their_class() -> None:
    tensors = [Tensor("x", (1, 4)), Tensor("y", (1, 4))]
    custom = Operator("CUSTOM", ["x"], ["y"], custom_code="NobodyKnowsIt")
    content = write(tensors, [custom], ["x"], ["y"])
    with pytest.raises(UnsupportedError, match="NobodyKnowsIt"):
        Session(content, device="cpu", cache=None, isolate=True)
    process = EngineProcess(find_engine("litert"))  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="options number 79"):
        process.ask("open_model", (damaged_file(), {}, 1))
    assert process.ask("try_file", content)[0]["reason"]  # it still answers
    with pytest.raises(DeviceError, match=r"exit status 1.* / FileNotFoundError: "):
        process.ask("open_model", ("no such file", {}, 1))


@needs_litert
@pytest.mark.parametrize("answer", ["nonsense", "\\0" * 8, "\\xff" * 8])
def test_malformed_answers_are_errors(answer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    child = (
        f"import sys; sys.stdout.buffer.write(b'{answer}'); sys.stdout.flush(); sys.stdin.read()"
    )
    monkeypatch.setattr(isolated, "_CHILD", child)
    process = EngineProcess(find_engine("litert"))  # type: ignore[arg-type]
    with pytest.raises(DeviceError, match=r"answer is malformed|exit status"):
        process.ask("run_model")


@needs_litert
def test_process_ends_when_it_is_closed_dropped_or_interrupted(
    process: EngineProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed, dropped = process, EngineProcess(find_engine("litert"))  # type: ignore[arg-type]
    numbers = [one._process.pid for one in (closed, dropped)]
    closed.close()
    del dropped
    assert not any(map(is_running, numbers))
    interrupted = EngineProcess(find_engine("litert"))  # type: ignore[arg-type]

    def interrupt(stream: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(isolated, "read_message", interrupt)
    with pytest.raises(KeyboardInterrupt):
        interrupted.ask("run_model")
    assert not is_running(interrupted._process.pid)


@needs_litert
@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="the platform has no /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_process_ends_with_its_session(number: signal.Signals) -> None:
    script = (
        "from fourfold.backends.cpu.isolated import EngineProcess\n"
        "from fourfold.backends.cpu.registry import find_engine\n"
        "process = EngineProcess(find_engine('litert'))\n"
        "print(process._process.pid, flush=True)\n"
        "input()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as session:
        assert session.stdout is not None
        engine = int(session.stdout.readline())
        assert is_running(engine)
        session.send_signal(number)
    wait_for_end(engine)


@pytest.mark.skipif(find_spec("onnxruntime") is None, reason="ONNX Runtime is not installed")
def test_isolates_onnxruntime() -> None:
    ports = [("x", "float", (2, 3))], [("y", "float", (2, 3))]
    content = model(graph([node("Relu", ["x"], ["y"])], *ports))
    array = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    with Session(content, device="cpu", cache=None, isolate=True) as session:
        assert np.array_equal(session.run({"x": array})["y"], np.maximum(array, 0))


def test_numpy_is_not_isolated() -> None:
    assert find_engine(NUMPY, isolate=True) is find_engine(NUMPY)


@needs_litert
def test_comparisons_are_isolated() -> None:
    content = MODELS["convolution"]()
    engine, plain = find_engine("litert", isolate=True), find_engine("litert")
    read = read_model(content)
    types = {name: read.main.types[name] for name in read.main.arguments}
    inputs = {name: np.ones(one.shape, one.dtype.numpy) for name, one in types.items()}
    results, expected = (one.open_model(content, inputs, 1)() for one in (engine, plain))
    assert np.array_equal(results[0], expected[0])
    values, same = (one.compute_values(read, [*inputs.values()]) for one in (engine, plain))
    assert values.has("y")
    assert not values.has("no such value")
    assert np.array_equal(values.value("y"), same.value("y"))


def test_messages_hold_any_array() -> None:
    arrays = [
        np.arange(6, dtype=np.int16).reshape(2, 3)[:, ::2],
        np.array(1.5, np.float16),
        np.zeros((0, 3), bool),
        None,
        np.array([b"a\xff", "ä"], object),
        np.array([1 + 2j], np.complex64),
    ]
    stream = io.BytesIO()
    write_message(stream, {"request": "run"}, arrays)
    stream.seek(0)
    message = read_message(stream)
    assert message is not None
    assert message[0]["request"] == "run"
    for array, again in zip(arrays, message[1], strict=True):
        if array is None or array.dtype.hasobject:
            assert again is None or [*again] == [b"a\xff", "ä".encode()]
        else:
            assert again.dtype == array.dtype
            assert np.array_equal(again, array)
    assert read_message(stream) is None
