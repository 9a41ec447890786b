"""Real models of every format, written as ONNX, agree in ONNX Runtime with their original runtime,
and have no additional transposes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from model_collection import MODELS, at_hand
from onnx_models import SHAPES, WRITABLE_ONNX
from stored_answers import check_answers, stored
from whole_models import CAFFE, PADDLE, WholeModel

from fourfold.errors import UnsupportedError
from fourfold.export.optimize.passes import simplify
from fourfold.formats import Model, ReadOptions, formats, read_model
from fourfold.formats.writable import WritableModel
from fourfold.types import Shape, TensorType

runtime = pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")

TOLERANCE = 1e-4  # relative to the range of an output
MIN_RANGE = 1e-2  # noise contains no text, and ONNX Runtime's sigmoid is accurate to 1e-7
INTEGER_TOLERANCE = 5e-3  # mean difference where LiteRT computes with rounded integers
FLOAT_MODELS = (
    "ad01_fp32",
    "basic_pitch",
    "deeplab_v3_257_float",
    "dtln_1_float",
    "edsr_x2_float",
    "face_detection_short_range",
    "face_landmark_fp16",
    "hand_landmark_lite",
    "idDetector",
    "iris_landmark",
    "knift_float",
    "mobilenet_v1_025_224_float",
    "movie_review",
    "palm_detection_lite",
    "pnet",
    "pose_detection",
    "pose_landmark_lite",
    "posenet_mobilenet_385_float",
    "resnet8_cifar_float",
    "rnet",
    "selfie_segmentation",
    "speech_mobilenet_float",
    "ssd_mobilenet_v2_fp16",
    "style_transfer_f16_384",
    "torchaudio_conformer",
    "ultraface_rfb_320",
    "unet_person_float",
    "vww_96_float",
)
INTEGER_MODELS = (
    "ad01_int8",
    "deeplab_v3_dm05_513_uint8",
    "ds_cnn_quantized",
    "dtln_1_dynamic",
    "edsr_x2_int8",
    "emotion_model_quantized",
    "fastestdet_dynamic",
    "kws_ref_model",
    "kws_ref_model_float32",
    "mcunetv2_large",
    "mobilenet_v1_0.25_128_quant",
    "mobilenet_v1_1.0_224_quant_embedding_extractor",
    "mobilenet_v2_035_96_embedder_with_metadata",
    "mobilenet_v2_1.0_224_quant",
    "resnet8_cifar_int8",
    "str_ww_ref_model",
    "tf2_mobilenet_v2_1.0_224_ptq",
    "vww_96_int8",
)
UNSUPPORTED = {
    "recommendation_rnn_i10o100": "persist between runs",
    "trained_lstm": "persist between runs",
    "ssd_mobilenet_v1_uint8": "detection",
    "yamnet_audio_classifier_with_metadata": "rfft2d",
}


def ignore_progress(name: str) -> None:
    """Ignore a progress report."""


def path_of(folder: str, name: str) -> Path:
    return at_hand(MODELS / folder / f"{name}.{folder}")


def read(path: Path, shapes: dict[str, Shape] | None = None) -> Model:
    return read_model(path, ReadOptions(shapes=shapes or {}))


def write_onnx(model: Model) -> bytes:
    graph, _ = simplify(model.main, True, ignore_progress)
    return formats()["onnx"].write(WritableModel(graph, model.input_names, model.output_names))


def random_input(type_: TensorType) -> np.ndarray:
    generator, kind = np.random.default_rng(7), type_.dtype.numpy
    if kind.kind == "f":
        return np.asarray(generator.uniform(-1, 1, type_.shape).astype(kind))
    low, high = 0, 1
    if kind.kind in "iu" and kind.itemsize == 1:
        low, high = np.iinfo(kind).min, np.iinfo(kind).max
    return np.asarray(generator.integers(low, high, type_.shape, endpoint=True).astype(kind))


def random_inputs(model: Model) -> dict[str, np.ndarray]:
    values = zip(model.input_names, model.main.arguments, strict=True)
    return {name: random_input(model.main.types[value]) for name, value in values}


def run_onnx_runtime(content: bytes | str, arrays: dict[str, np.ndarray]) -> list[np.ndarray]:
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    session = runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    outputs: list[np.ndarray] = session.run(None, arrays)
    return outputs


def run_litert(path: Path, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    module = pytest.importorskip("ai_edge_litert.interpreter", reason="LiteRT is not installed")
    interpreter = module.Interpreter(str(path))
    for detail, array in zip(interpreter.get_input_details(), arrays, strict=True):
        interpreter.resize_tensor_input(detail["index"], list(array.shape))
    interpreter.allocate_tensors()
    for detail, array in zip(interpreter.get_input_details(), arrays, strict=True):
        interpreter.set_tensor(detail["index"], array)
    interpreter.invoke()
    details = interpreter.get_output_details()
    return [np.asarray(interpreter.get_tensor(detail["index"])) for detail in details]


def differences(found: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> np.ndarray:
    """Return the largest and the mean difference of the worst output, relative to its range."""
    rows = [(0.0, 0.0)]
    for ours, theirs in zip(found, expected, strict=True):
        assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
        apart = np.abs(ours.astype(np.float64) - theirs.astype(np.float64))
        wide = theirs.astype(np.float64)
        reach = max(float(np.ptp(wide) or np.abs(wide).max(initial=0)), MIN_RANGE)
        rows.append((apart.max(initial=0) / reach, apart.mean() / reach))
    return np.max(rows, axis=0)


def count_transposes(content: bytes) -> int:
    return sum(node.op_type == "Transpose" for node in onnx.load_from_string(content).graph.node)


@pytest.mark.parametrize("name", WRITABLE_ONNX)
def test_onnx_models_round_trip(name: str) -> None:
    path = path_of("onnx", name)
    model = read(path, SHAPES[name])
    content, arrays = write_onnx(model), random_inputs(model)
    largest, _ = differences(run_onnx_runtime(content, arrays), run_onnx_runtime(str(path), arrays))
    assert largest <= TOLERANCE
    assert count_transposes(content) <= count_transposes(path.read_bytes())


@pytest.mark.parametrize("name", FLOAT_MODELS)
def test_float_tflite_models_agree(name: str) -> None:
    path = path_of("tflite", name)
    model = read(path)
    arrays = random_inputs(model)
    expected = run_litert(path, list(arrays.values()))
    largest, _ = differences(run_onnx_runtime(write_onnx(model), arrays), expected)
    assert largest <= TOLERANCE


@pytest.mark.parametrize("name", INTEGER_MODELS)
def test_integer_tflite_models_agree(name: str) -> None:
    path = path_of("tflite", name)
    model = read(path)
    arrays = random_inputs(model)
    expected = run_litert(path, list(arrays.values()))
    _, mean = differences(run_onnx_runtime(write_onnx(model), arrays), expected)
    assert mean <= INTEGER_TOLERANCE


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_error_names_ops_that_onnx_cannot_express(name: str) -> None:
    model = read(path_of("tflite", name))
    with pytest.raises(UnsupportedError, match=UNSUPPORTED[name]):
        write_onnx(model)


@pytest.mark.parametrize("name", [*CAFFE, *PADDLE])
def test_caffe_and_paddle_models_agree(name: str) -> None:
    model: WholeModel = {**CAFFE, **PADDLE}[name]
    if not model.file.exists():
        pytest.skip(f"{model.path} is not available")
    content = write_onnx(read(model.file, {model.input: model.shape}))
    expected = {**stored("caffe_models"), **stored("paddle_models")}[name]
    tolerance = 1.0 if name == "det" else TOLERANCE  # absolute 1e-6 at least: see MIN_RANGE
    check_answers(expected, run_onnx_runtime(content, model.arrays), tolerance)
