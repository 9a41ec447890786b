"""Models in a browser compared with LiteRT on the CPU, on the same inputs."""

from __future__ import annotations

import base64
import json

import numpy as np
import pytest
from click.testing import CliRunner
from model_collection import TFLITE, needs_models
from web_player.conftest import Stage

from fourfold.cli import main

FLOATS = (
    "mobilenet_v1_025_224_float",
    "face_detection_short_range",
    "selfie_segmentation",
    "hand_landmark_lite",
    "speech_mobilenet_float",
    "resnet8_cifar_float",
    "vww_96_float",
    "iris_landmark",
    "ad01_fp32",
)
QUANTISED = ("kws_ref_model", "vww_96_int8", "resnet8_cifar_int8")
ERROR = 1e-4  # largest error of float outputs, relative to their range
STEPS = 2  # largest error of quantized outputs
SCRIPT = """
const arrays = {f32: Float32Array, i8: Int8Array, u8: Uint8Array, i32: Int32Array};
const model = await fourfold.open('model.fourfold');
const values = %s.map((text, at) => {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return new arrays[model.inputs[at].type](bytes.buffer);
});
const found = await model.run(values);
model.close();
return model.outputs.map(({name}) => Array.from(found[name]));
"""

pytestmark = [
    pytest.mark.slow,
    needs_models,
]


def litert(name: str) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return random inputs, and LiteRT's results for them."""
    interpreter = pytest.importorskip("ai_edge_litert.interpreter", reason="LiteRT is missing")
    engine = interpreter.Interpreter(str(TFLITE / f"{name}.tflite"))
    engine.allocate_tensors()
    random = np.random.default_rng(3)
    inputs = []
    for detail in engine.get_input_details():
        kind, shape = np.dtype(detail["dtype"]), detail["shape"]
        limits = (-1, 1) if kind == np.float32 else (np.iinfo(kind).min, np.iinfo(kind).max)
        inputs.append(random.uniform(*limits, shape).astype(kind))
        engine.set_tensor(detail["index"], inputs[-1])
    engine.invoke()
    return inputs, [engine.get_tensor(one["index"]) for one in engine.get_output_details()]


def in_browser(stage: Stage, name: str, inputs: list[np.ndarray]) -> list[np.ndarray]:
    output = stage.folder / "model.fourfold"
    words = ["prepare", str(TFLITE / f"{name}.tflite"), "--web", "-o", str(output)]
    done = CliRunner().invoke(main, words, standalone_mode=False)
    assert done.exception is None, done.output
    texts = [base64.b64encode(one.tobytes()).decode() for one in inputs]
    return [np.array(one, np.float64) for one in stage.run(SCRIPT % json.dumps(texts))]


@pytest.mark.parametrize("name", FLOATS)
def test_floats_agree(stage: Stage, name: str) -> None:
    inputs, expected = litert(name)
    found = in_browser(stage, name, inputs)
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        reach = float(np.ptp(theirs)) or max(1.0, float(np.abs(theirs).max()))
        assert np.abs(ours.reshape(theirs.shape) - theirs).max() <= ERROR * reach


@pytest.mark.parametrize("name", QUANTISED)
def test_quantised_models_agree(stage: Stage, name: str) -> None:
    inputs, expected = litert(name)
    found = in_browser(stage, name, inputs)
    for ours, theirs in zip(found, expected, strict=True):
        assert np.abs(ours.reshape(theirs.shape) - theirs).max() <= STEPS
