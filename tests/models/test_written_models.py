"""Real models, read and written as TFLite files, behave in LiteRT like the originals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from model_collection import ONNX, TFLITE, at_hand, or_skipped
from onnx_models import SHAPES, WRITABLE_ONNX
from runtimes import interpreter

from fourfold.backends.cpu.reference import NumpyPart
from fourfold.compiler.rewrite import WRITABLE
from fourfold.formats import Model, ReadOptions, formats, read_model
from fourfold.formats.writable import WritableModel
from fourfold.graph import Graph

pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed")

TOLERANCE = 1e-5  # relative to the range of an output
QUICK = ("ad01_int8", "kws_ref_model", "okay_nabu", "pnet", "resnet8_cifar_float")
# LiteRT's hybrid LSTM quantizes the input of all gates at once; written as layers, each does.
ROUNDED_TOLERANCE = {"dtln_1_dynamic": 3e-2}
UNKNOWN = {"selfie_segmentation"}  # a MediaPipe operator that LiteRT lacks
QUICK_ONNX = ("ch_ppocr_mobile_v2.0_cls_mobile", "magika_v1")
RUNS = 3  # states matter from the second run on


def mark_slow(names: list[str], quick: tuple[str, ...]) -> list[Any]:
    return or_skipped(
        pytest.param(name, marks=[] if name in quick else [pytest.mark.slow]) for name in names
    )


def tflite_models() -> list[str]:
    return sorted(path.stem for path in TFLITE.glob("*.tflite"))


def simplify_graph(graph: Graph) -> Graph:
    for pass_ in WRITABLE:
        graph = pass_(graph)
    return graph


def write_tflite(model: Model, graph: Graph) -> bytes:
    names = (model.input_names, model.output_names)
    return formats()["tflite"].write(
        WritableModel(graph, *names, description=model.description, open_sizes=model.open_sizes)
    )


def random_input(detail: dict[str, Any], generator: np.random.Generator) -> np.ndarray:
    dtype, shape = np.dtype(detail["dtype"]), tuple(detail["shape"])
    if dtype.kind == "b":
        return np.ones(shape, np.bool_)
    if dtype.kind == "f":
        return generator.uniform(-1, 1, shape).astype(dtype)
    high = 4 if dtype.itemsize > 1 else np.iinfo(dtype).max
    return generator.integers(0, high, shape, endpoint=True).astype(dtype)


def all_runs(litert: Any) -> list[list[np.ndarray]]:
    """Return the outputs of several consecutive runs."""
    litert.allocate_tensors()
    generator, result = np.random.default_rng(5), []
    for _ in range(RUNS):
        for detail in litert.get_input_details():
            litert.set_tensor(detail["index"], random_input(detail, generator))
        litert.invoke()
        result.append([litert.get_tensor(one["index"]) for one in litert.get_output_details()])
    return result


def check_outputs(found: list[np.ndarray], wanted: list[np.ndarray], tolerance: float) -> None:
    for ours, right in zip(found, wanted, strict=True):
        assert (ours.dtype, ours.shape) == (right.dtype, right.shape)
        exact = right.astype(np.float64)
        reach = float(np.ptp(exact))
        # Single numbers and tiny ranges are probabilities here.
        limit = tolerance * (reach if reach > 1e-4 else 1.0)
        assert np.abs(ours.astype(np.float64) - exact).max(initial=0) <= limit


@pytest.mark.parametrize("name", mark_slow(tflite_models(), QUICK))
def test_rewritten_model_agrees(name: str) -> None:
    content = (TFLITE / f"{name}.tflite").read_bytes()
    model = read_model(content)
    ours = all_runs(interpreter("ai_edge_litert", write_tflite(model, model.main)))
    if name in UNKNOWN:
        part, generator = NumpyPart(model.main), np.random.default_rng(5)
        types = [model.main.types[one] for one in model.main.arguments]
        details = [{"dtype": one.dtype.numpy, "shape": one.shape} for one in types]
        check_outputs(
            ours[0], part.run([random_input(one, generator) for one in details]), TOLERANCE
        )
        return
    theirs = all_runs(interpreter("ai_edge_litert", content))
    for result, expected in zip(ours, theirs, strict=True):
        check_outputs(result, expected, ROUNDED_TOLERANCE.get(name, TOLERANCE))


@pytest.mark.parametrize("name", mark_slow(tflite_models(), QUICK))
def test_simplified_model_agrees(name: str) -> None:
    content = (TFLITE / f"{name}.tflite").read_bytes()
    model = read_model(content)
    graph = simplify_graph(model.main)
    ours = all_runs(interpreter("ai_edge_litert", write_tflite(model, graph)))
    kept = all_runs(interpreter("ai_edge_litert", write_tflite(model, model.main)))
    for result, expected in zip(ours, kept, strict=True):
        if model.main.quantization:
            check_mean(result, expected)
        else:
            check_outputs(result, expected, TOLERANCE)


def check_mean(found: list[np.ndarray], wanted: list[np.ndarray]) -> None:
    """Check mean differences: passes may break rounding ties, which can add up to several steps."""
    for ours, right in zip(found, wanted, strict=True):
        apart = np.abs(ours.astype(np.float64) - right.astype(np.float64)).mean()
        assert apart <= 0.05 * max(float(np.ptp(right.astype(np.float64))), 1e-4)


@pytest.mark.parametrize("name", mark_slow(list(WRITABLE_ONNX), QUICK_ONNX))
def test_onnx_models_written_as_tflite_agree(name: str) -> None:
    onnxruntime = pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
    path = at_hand(ONNX / f"{name}.onnx")
    model = read_model(path, ReadOptions(SHAPES[name]))
    generator, main = np.random.default_rng(5), model.main
    details = [
        {"dtype": main.types[one].dtype.numpy, "shape": main.types[one].shape}
        for one in main.arguments
    ]
    arrays = [generator.standard_normal(one["shape"]).astype(one["dtype"]) for one in details]
    inputs = dict(zip(model.input_names, arrays, strict=True))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    right = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    expected = right.run(None, inputs)
    for graph in (main, simplify_graph(main)):
        content = write_tflite(model, graph)
        runner = interpreter("ai_edge_litert", content).get_signature_runner("serving_default")
        result = runner(**inputs)
        check_outputs([result[port.name] for port in right.get_outputs()], expected, 1e-4)
