"""One launch of small models in the interpreter, for an H200 and a CPU, agrees with LiteRT."""

from __future__ import annotations

import numpy as np
import pytest
import runtimes
from interpreted_devices import NVIDIA, X86
from model_collection import TFLITE, needs_models

import fourfold
from fourfold.device import DeviceInfo
from fourfold.runtime.random_inputs import random_inputs

FLOAT_MODELS = ("resnet8_cifar_float", "vww_96_float", "face_detection_short_range", "trained_lstm")
INTEGER_MODELS = ("resnet8_cifar_int8", "vww_96_int8", "ds_cnn_quantized")
TOLERANCES = {"fp32": 2e-5, "mixed": 5e-3}
pytestmark = [
    pytest.mark.slow,
    needs_models,
    pytest.mark.skipif(not runtimes.INSTALLED, reason="LiteRT is not installed"),
]


@pytest.mark.parametrize("precision", TOLERANCES)
@pytest.mark.parametrize("like", [NVIDIA, X86], ids=["nvidia", "x86"])
@pytest.mark.parametrize("name", [*FLOAT_MODELS, *INTEGER_MODELS])
def test_one_launch_agrees_with_litert(name: str, like: DeviceInfo, precision: str) -> None:
    path = TFLITE / f"{name}.tflite"
    with fourfold.Session(path, like, precision, placement="gpu", strict=True) as session:
        assert len(session.plan.launches) == 1
        assert session.plan.stages > 1
        inputs = random_inputs(session.inputs, seed=3)
        outputs = list(session.run(inputs).values())
    # LiteRT's optimized kernels: quantized models are rounded as they do.
    engine = runtimes.interpreter(runtimes.INSTALLED[0], path.read_bytes(), plain=False)
    for ours, theirs in zip(outputs, runtimes.run(engine, list(inputs.values())), strict=True):
        assert ours.dtype == theirs.dtype
        if ours.dtype.kind == "f":
            limit = TOLERANCES[precision] * max(1.0, float(np.abs(theirs).max()))
            np.testing.assert_allclose(ours, theirs, atol=limit)
        else:
            steps = np.abs(ours.astype(np.int64) - theirs.astype(np.int64))
            assert steps.max() <= 1
