"""Real models through GpuDelegate agree with the interpreter alone."""

from __future__ import annotations

import numpy as np
import pytest
from model_collection import TFLITE, needs_models
from runtimes import INSTALLED, RUNTIMES, interpreter, run

from fourfold.litert import GpuDelegate
from fourfold.runtime.device_memory import fresh_array
from fourfold.session import Session

TOLERANCE = 1e-4  # relative to the range of an output
STEPS = 4  # quantization steps; the runtimes' own kernels differ by as much
# Models that run entirely on the GPU: floats, fp16 weights unpacked by operators, dynamic sizes.
FLOATS = (
    "ad01_fp32.tflite",
    "face_detection_short_range.tflite",
    "face_landmark_fp16.tflite",
    "mobilenet_v1_025_224_float.tflite",
    "pose_detection.tflite",
    "resnet8_cifar_float.tflite",
    "vww_96_float.tflite",
)
# Minimum number of claimed nodes, in at most four partitions.
PARTS = {"recommendation_rnn_i10o100.tflite": 13, "trained_lstm.tflite": 3}
# Float activations with integer weights, whose rounding depends on the kernels.
WEIGHTS = (
    "dtln_1_dynamic.tflite",
    "emotion_model_quantized.tflite",
    "kws_ref_model_float32.tflite",
)
INTEGERS = ("mobilenet_v1_0.25_128_quant.tflite", "vww_96_int8.tflite", "str_ww_ref_model.tflite")

pytestmark = [
    pytest.mark.needs_device,
    needs_models,
    pytest.mark.skipif(not INSTALLED, reason="no TFLite runtime is installed"),
]


def make_inputs(content: bytes) -> list[np.ndarray]:
    random = np.random.default_rng(3)
    arrays = []
    for detail in interpreter(INSTALLED[0], content).get_input_details():
        kind, shape = np.dtype(detail["dtype"]), detail["shape"]
        if kind.kind == "f":
            arrays.append(random.uniform(-1, 1, shape).astype(kind))
        else:
            low, high = (0, 2) if kind.itemsize > 1 else (np.iinfo(kind).min, np.iinfo(kind).max)
            arrays.append(random.integers(low, high, shape).astype(kind))
    return arrays


def compare(name: str, model: str, **options: object) -> GpuDelegate:
    content = (TFLITE / model).read_bytes()
    inputs = make_inputs(content)
    expected = run(interpreter(name, content, plain=False), inputs)
    delegate = GpuDelegate(content, **options)
    result = run(interpreter(name, content, delegate, plain=False), inputs)
    for ours, theirs in zip(result, expected, strict=True):
        assert ours.dtype == theirs.dtype
        assert ours.shape == theirs.shape
        if ours.dtype == np.int32:  # indices, where entries of equal score may swap
            assert (ours == theirs).mean() > 0.97
            continue
        error = np.abs(ours.astype(np.float64) - theirs).max()
        extent = max(float(np.ptp(theirs)), float(np.abs(theirs).max()))
        limit = TOLERANCE * extent if ours.dtype.kind == "f" else STEPS
        assert error <= limit, f"off by {error:.3g}, allowed {limit:.3g}"
    assert delegate.last_error is None
    return delegate


@pytest.mark.parametrize("name", RUNTIMES)
@pytest.mark.parametrize("model", FLOATS)
def test_model_runs_entirely_on_the_gpu(name: str, model: str) -> None:
    delegate = compare(name, model)
    assert delegate.claims is not None
    assert delegate.claims.claimed == delegate.claims.nodes
    assert len(delegate.claims.partitions) == 1


@pytest.mark.parametrize("name", RUNTIMES)
@pytest.mark.parametrize("model", INTEGERS)
def test_quantized_model_agrees(name: str, model: str) -> None:
    delegate = compare(name, model)
    assert delegate.claims is not None
    assert delegate.claims.claimed == delegate.claims.nodes


@pytest.mark.parametrize("name", RUNTIMES)
@pytest.mark.parametrize("model", WEIGHTS)
def test_model_with_integer_weights_agrees(name: str, model: str) -> None:
    """The runtime's own kernels differ in rounding; ours may differ by as much."""
    content = (TFLITE / model).read_bytes()
    inputs = make_inputs(content)
    fast, plain = (run(interpreter(name, content, plain=kind), inputs) for kind in (False, True))
    delegate = GpuDelegate(content)
    result = run(interpreter(name, content, delegate, plain=False), inputs)
    assert delegate.claims is not None
    assert delegate.claims.claimed == delegate.claims.nodes
    for ours, one, other in zip(result, fast, plain, strict=True):
        error = min(np.abs(ours - one).mean(), np.abs(ours - other).mean())
        assert error <= max(1.5 * np.abs(one - other).mean(), 0.004 * np.ptp(one))


@pytest.mark.parametrize("name", RUNTIMES)
@pytest.mark.parametrize("model", PARTS)
def test_model_with_several_partitions_agrees(name: str, model: str) -> None:
    delegate = compare(name, model, max_delegated_partitions=4)
    assert delegate.claims is not None
    assert delegate.claims.claimed >= PARTS[model]


@pytest.mark.parametrize("name", RUNTIMES)
@pytest.mark.parametrize("model", ["face_detection_short_range.tflite", "vww_96_int8.tflite"])
def test_model_runs_in_device_memory(name: str, model: str) -> None:
    """Inputs and outputs stay in device memory."""
    content = (TFLITE / model).read_bytes()
    inputs = make_inputs(content)
    expected = run(interpreter(name, content, GpuDelegate(content)), inputs)
    delegate = GpuDelegate(content, allow_buffer_handle_output=True)
    ours = interpreter(name, content, delegate)
    before = run(ours, [np.zeros_like(array) for array in inputs])
    with Session(content, delegate.device, cache="memory") as session:
        for detail, array in zip(ours.get_input_details(), inputs, strict=True):
            info = next(one for one in session.inputs if one.name == detail["name"])
            memory = fresh_array(delegate.device, info)
            memory.memory.write(array)
            delegate.bind_buffer_to_input(detail["index"], memory)
    ours.invoke()
    for detail, old, theirs in zip(ours.get_output_details(), before, expected, strict=True):
        np.testing.assert_array_equal(ours.get_tensor(detail["index"]), old)
        np.testing.assert_array_equal(delegate.output(detail["name"]).numpy(), theirs)
        delegate.ensure_readable(detail["index"])
        np.testing.assert_array_equal(ours.get_tensor(detail["index"]), theirs)
