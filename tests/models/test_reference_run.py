"""Models evaluated with the NumPy references agree with LiteRT; refusals state a reason."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from model_collection import SHARED, TFLITE, needs_models, or_skipped

from fourfold.backends.cpu.reference import evaluate
from fourfold.errors import UnsupportedError
from fourfold.formats import read_model
from fourfold.formats.model import Model
from fourfold.formats.tflite.reader import read_file
from fourfold.types import TensorType

CONFORMANCE = SHARED / "conformance" / "tflite"
TOLERANCE = 1e-4  # relative to the largest value of an output
# LiteRT rounds activations before it multiplies them by 8-bit weights; the references do not.
ROUNDED_TOLERANCE = 0.1
SLOW = {"conv_huge_im2col.bin"}  # a convolution of many gigabytes
# Models whose references take a second or less.
SMALL = (
    "ad01_fp32.tflite",
    "dtln_1_dynamic.tflite",
    "dtln_1_float.tflite",
    "emotion_model_quantized.tflite",
    "face_detection_short_range.tflite",
    "face_landmark_fp16.tflite",
    "fastestdet_dynamic.tflite",
    "kws_ref_model_float32.tflite",
    "mobilenet_v1_025_224_float.tflite",
    "mobilenet_v2_035_96_embedder_with_metadata.tflite",
    "movie_review.tflite",
    "palm_detection_lite.tflite",
    "pnet.tflite",
    "pose_detection.tflite",
    "resnet8_cifar_float.tflite",
    "speech_mobilenet_float.tflite",
    "vww_96_float.tflite",
)


# LiteRT's CPU kernels return only zeros for these, so there is nothing to compare.
NO_ANSWER = (
    "static_w8_a16_quantized_attn_vec_einsum.tflite",
    "static_w8_a16_quantized_q_einsum.tflite",
)
STEPS_TOLERANCE = 4e-3
NARROW = ("int8", "uint8", "int16")
# One LiteRT kernel rounds its multiplier to multiples of 1/256, another does not.
COARSE = ("quantize1.tflite", "quantize1.bin")


def conformance_files() -> list[Path]:
    files = [path for path in CONFORMANCE.rglob("*") if path.suffix in (".tflite", ".bin")]
    return sorted(path for path in files if path.name not in (*SLOW, *NO_ANSWER))


def random_input(type: TensorType, rng: np.random.Generator) -> np.ndarray:
    """Return floats around zero, or integers small enough to index anything."""
    floats = type.dtype.is_float
    values = rng.uniform(-1, 1, type.shape) if floats else rng.integers(0, 2, type.shape)
    return values.astype(type.dtype.numpy)


def litert(path: Path, inputs: list[np.ndarray]) -> list[np.ndarray]:
    interpreters = pytest.importorskip(
        "ai_edge_litert.interpreter", reason="LiteRT is not installed"
    )
    resolver = interpreters.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = interpreters.Interpreter(str(path), experimental_op_resolver_type=resolver)
    interpreter.allocate_tensors()
    for detail, array in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(detail["index"], array)
    interpreter.invoke()
    return [interpreter.get_tensor(item["index"]) for item in interpreter.get_output_details()]


def compare(path: Path, model: Model) -> None:
    graph, rng = model.main, np.random.default_rng(0)
    inputs = {name: random_input(graph.types[name], rng) for name in graph.arguments}
    expected_value = litert(path, list(inputs.values()))
    tolerance = ROUNDED_TOLERANCE if _has_narrow_weights(path) else TOLERANCE
    results = evaluate(graph, inputs).values()
    for name, array, expected in zip(model.output_names, results, expected_value, strict=True):
        assert array.shape == expected.shape, name
        assert array.dtype == expected.dtype, name
        finite = np.abs(expected[np.isfinite(expected)].astype(np.float64))
        # Quantized values: LiteRT's own kernels differ by some steps.
        narrow = expected.dtype.name in NARROW or path.name in COARSE
        share = max(tolerance, STEPS_TOLERANCE) if narrow else tolerance
        allowed = share * finite.max(initial=0.0) + 1e-6
        np.testing.assert_allclose(array, expected, rtol=0, atol=allowed, err_msg=name)


def _has_narrow_weights(path: Path) -> bool:
    """Return True if float activations are multiplied by weights of at most 8 bits."""
    file = read_file(path.read_bytes(), path.name)
    weights = {"CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV", "LSTM"}
    return any(
        graph.tensors[index].quantized
        for graph in file.subgraphs
        for operator in graph.operators
        if operator.op in weights
        for index in operator.inputs
        if index != -1
    )


def read_or_refuse(path: Path) -> Model | UnsupportedError:
    try:
        return read_model(path)
    except UnsupportedError as error:
        return error


def test_most_conformance_files_are_converted() -> None:
    files = conformance_files()
    if not files:
        pytest.skip("the shared conformance files are not available")
    assert sum(isinstance(read_or_refuse(path), Model) for path in files) >= 80


@pytest.mark.skipif(not CONFORMANCE.is_dir(), reason="the shared conformance files are not here")
@pytest.mark.parametrize("path", or_skipped(conformance_files()), ids=lambda path: path.stem)
def test_conformance_file_agrees_with_litert(path: Path) -> None:
    model = read_or_refuse(path)
    if isinstance(model, Model):
        compare(path, model)
    else:
        assert all(refusal.reason for refusal in model.refusals)


@needs_models
@pytest.mark.parametrize("name", SMALL)
def test_model_agrees_with_litert(name: str) -> None:
    compare(TFLITE / name, read_model(TFLITE / name))
