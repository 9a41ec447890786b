"""Small quantized models agree with LiteRT's optimized kernels on every device."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from model_collection import TFLITE, at_hand

import fourfold
from fourfold.device import DeviceInfo

SMALL = ("kws_ref_model", "mobilenet_v1_0.25_128_quant", "ds_cnn_quantized", "resnet8_cifar_int8")


def litert(path: Path, array: np.ndarray) -> np.ndarray:
    module = pytest.importorskip("ai_edge_litert.interpreter", reason="LiteRT is not installed")
    interpreter = module.Interpreter(str(path))
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], array)
    interpreter.invoke()
    return np.asarray(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]))


@pytest.mark.parametrize("precision", ["fp32", "mixed"])
@pytest.mark.parametrize("name", SMALL)
def test_model_agrees_with_litert(name: str, precision: str, device: DeviceInfo) -> None:
    path = at_hand(TFLITE / f"{name}.tflite")
    with fourfold.Session(path, device, precision, placement="gpu", strict=True) as session:
        info = session.inputs[0]
        limits = np.iinfo(info.dtype)
        integers = np.random.default_rng(7).integers(
            limits.min, limits.max, info.shape, endpoint=True
        )
        array = integers.astype(info.dtype)
        (ours,) = session.run(array).values()
    theirs = litert(path, array)
    assert ours.dtype == theirs.dtype
    limits = np.iinfo(ours.dtype)
    difference = np.abs(ours.astype(np.int64) - theirs.astype(np.int64))
    assert difference.mean() <= 0.001 * (int(limits.max) - int(limits.min))
    assert ours.argmax() == theirs.argmax()
