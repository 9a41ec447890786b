"""Real ONNX models agree with ONNX Runtime, on every device and on the CPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from model_collection import ONNX, at_hand
from onnx_models import SHAPES

import fourfold
from fourfold.compiler.rewrite import rewrite
from fourfold.device import DeviceInfo
from fourfold.errors import InputError
from fourfold.formats import ReadOptions, read_model
from fourfold.ops.transpose import Transpose
from fourfold.types import TensorType

onnxruntime = pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")

TOLERANCES = {"fp32": 1e-4, "mixed": 1e-2}  # relative to the range of an output
NO_IMAGES = ("magika_v1", "super_resolution")  # their transposes do not move image channels
LARGE_MODELS = ("sig_bak_ovr", "basic_pitch", "super_resolution")  # run in one precision only


def path_of(name: str) -> Path:
    return at_hand(ONNX / f"{name}.onnx")


def random_input(name: str, port: str, type: TensorType) -> np.ndarray:
    rng = np.random.default_rng(7)
    if name == "magika_v1":
        return rng.integers(0, 257, type.shape).astype(np.float32)
    if port == "sr":
        return np.array(16000)
    return rng.standard_normal(type.shape).astype(type.dtype.numpy)


def value_range(array: np.ndarray) -> float:
    """Return the range of an output; single numbers are probabilities here."""
    return float(np.ptp(array)) or 1.0


def model_precisions() -> list[tuple[str, str]]:
    return [
        (name, how)
        for name in SHAPES
        for how in TOLERANCES
        if how == "fp32" or name not in LARGE_MODELS
    ]


@pytest.mark.parametrize(("name", "precision"), model_precisions())
def test_results_agree_with_onnx_runtime(device: DeviceInfo, name: str, precision: str) -> None:
    path, shapes = path_of(name), SHAPES[name]
    main = read_model(path, ReadOptions(shapes, keep_unsupported=True)).main
    inputs = {port: random_input(name, port, main.types[port]) for port in main.arguments}
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    right = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    expected = right.run(None, inputs)
    with fourfold.Session(path, device, shapes=shapes, precision=precision, cache=None) as session:
        outputs = session.run(inputs)
    assert list(outputs) == [port.name for port in right.get_outputs()]
    for ours, theirs in zip(outputs.values(), expected, strict=True):
        assert ours.shape == theirs.shape
        assert np.abs(ours - theirs).max() <= TOLERANCES[precision] * value_range(theirs)


@pytest.mark.parametrize("name", [name for name in SHAPES if name not in NO_IMAGES])
def test_no_transposes_remain(name: str) -> None:
    """These files have channels first; the first and last kernels read and write them directly."""
    main = read_model(path_of(name), ReadOptions(SHAPES[name])).main
    turned = [str(node) for node in rewrite(main).nodes if isinstance(node.attributes, Transpose)]
    assert not turned


def test_open_sizes_need_shapes() -> None:
    with pytest.raises(InputError, match=r"leaves sizes of it open: \[\?, 3, \?, \?\]"):
        read_model(path_of("ch_ppocr_mobile_v2.0_cls_mobile"))
