"""Every quantization method in every file format, run by fourfold and by the format's runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import stateful_models
from float_networks import pictures, small_classifier, write_tflite

import fourfold
from fourfold.backends.cpu.reference import evaluate
from fourfold.compiler.rewrite import rewrite
from fourfold.errors import InputError
from fourfold.export.quantize.method import METHODS
from fourfold.export.quantize.quantize import quantize
from fourfold.formats import read_model

GRAPH = small_classifier()
SAMPLES = pictures(GRAPH, 12)
OTHERS = pictures(GRAPH, 6, seed=2)
# Largest error of probabilities for each method.
ALLOWED = {"dynamic": 0.003, "int8": 0.02, "int16x8": 0.003, "fp16": 0.001, "weights-int4": 0.1}


def by_litert(path: Path) -> list[np.ndarray]:
    litert = pytest.importorskip("ai_edge_litert.interpreter")
    interpreter = litert.Interpreter(str(path))
    interpreter.allocate_tensors()
    (source,), (result,) = interpreter.get_input_details(), interpreter.get_output_details()
    found = []
    for array in OTHERS:
        interpreter.set_tensor(source["index"], array)
        interpreter.invoke()
        found.append(interpreter.get_tensor(result["index"]))
    return found


def by_onnxruntime(path: Path) -> list[np.ndarray]:
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(str(path))
    return [session.run(None, {session.get_inputs()[0].name: array})[0] for array in OTHERS]


RUNTIMES = {".tflite": by_litert, ".onnx": by_onnxruntime}


def by_definition(path: Path) -> list[np.ndarray]:
    """Return the results of the rewritten graph, evaluated in NumPy."""
    graph = rewrite(read_model(path).main)
    return [evaluate(graph, {graph.arguments[0]: array})[graph.results[0]] for array in OTHERS]


def by_session(path: Path, device: str | None) -> list[np.ndarray]:
    with fourfold.Session(path, device) as session:
        return [session.run(array)["scores"] for array in OTHERS]


def written(method: str, path: Path, device: str | None) -> Path:
    source = path.with_name("model.tflite")
    source.write_bytes(write_tflite(GRAPH))
    fourfold.optimize(source, path, quantize=method, calibrate=SAMPLES, device=device)
    return path


@pytest.mark.parametrize("ending", RUNTIMES)
@pytest.mark.parametrize("method", METHODS)
def test_a_file_runs_here_as_in_its_own_runtime(method: str, ending: str, tmp_path: Path) -> None:
    path = written(method, tmp_path / f"out{ending}", "cpu")
    theirs, ours = RUNTIMES[ending](path), by_definition(path)
    exact = [evaluate(GRAPH, {"image": array})["scores"] for array in OTHERS]
    for mine, other, real in zip(ours, theirs, exact, strict=True):
        assert np.abs(mine - other).max() <= (1.01 / 256 if method == "int8" else 2e-3)
        assert np.abs(mine - real).max() <= ALLOWED[method]


@pytest.mark.needs_device
@pytest.mark.parametrize("method", METHODS)
def test_a_prepared_file_answers_as_the_model_in_it(method: str, tmp_path: Path) -> None:
    prepared = by_session(written(method, tmp_path / "out.fourfold", None), None)
    exact = [evaluate(GRAPH, {"image": array})["scores"] for array in OTHERS]
    for mine, real in zip(prepared, exact, strict=True):
        assert np.abs(mine - real).max() <= ALLOWED[method]


def test_cpu_parts_have_the_weights_of_the_file(tmp_path: Path) -> None:
    """Both engines compute on the integers of the file, so the results are equal."""
    path = written("int8", tmp_path / "out.onnx", "cpu")
    for mine, other in zip(by_session(path, "cpu"), by_onnxruntime(path), strict=True):
        assert np.array_equal(mine, other)


def test_a_model_with_states_takes_no_samples() -> None:
    model = stateful_models.svdf()
    samples = [np.ones((stateful_models.ROWS, 7), np.float32)] * 4
    with pytest.raises(InputError, match="model with state"):
        quantize(model, method="dynamic", samples=samples, device="cpu")
    assert quantize(model, method="dynamic", device="cpu").content
