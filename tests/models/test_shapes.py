"""Real models with other shapes agree with LiteRT, and batched images with single ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from model_collection import TFLITE, at_hand

import fourfold
from fourfold.backends.cpu.litert.interpreter import open_file
from fourfold.device import DeviceInfo
from fourfold.errors import InputError
from fourfold.runtime.random_inputs import random_inputs
from fourfold.types import Shape

TOLERANCE = 1e-4  # relative to the range of an output: other shapes may use other kernels
SIZES: dict[str, list[Shape]] = {
    "pnet": [(1, 37, 53, 3), (2, 61, 41, 3), (1, 12, 12, 3)],
    "posenet_mobilenet_385_float": [(1, 131, 97, 3), (2, 67, 101, 3)],
    "unet_person_float": [(1, 64, 96, 3), (3, 32, 32, 3)],
    "edsr_x2_float": [(1, 17, 23, 3), (2, 11, 13, 3)],
    "ultraface_rfb_320": [(1, 120, 160, 3)],
    "mobilenet_v1_025_224_float": [(1, 229, 233, 3)],
    "deeplab_v3_257_float": [(2, 257, 257, 3)],
}
BATCHES = (
    *("mobilenet_v1_0.25_128_quant", "face_detection_short_range", "iris_landmark"),
    *("ssd_mobilenet_v2_fp16", "trained_lstm", "mobilenet_v1_025_224_float"),
)
REFUSED = {
    "deeplab_v3_257_float": ((1, 311, 283, 3), "CONCATENATION 'concat'"),
    "selfie_segmentation": ((1, 128, 128, 3), "AVERAGE_POOL_2D 'average_pooling2d'"),
    "dtln_1_float": ((3, 1, 257), "UNPACK 'functional_3/lstm_4/unstack'"),
    "movenet_lightning_int8": ((3, 192, 192, 3), "PACK 'stack'"),
}


def path_of(name: str) -> Path:
    return at_hand(TFLITE / f"{name}.tflite")


def value_range(array: np.ndarray) -> float:
    return float(np.ptp(array)) or 1.0


@pytest.mark.parametrize(
    ("where", "name"), [*(("device", name) for name in SIZES), ("cpu", "pnet")]
)
def test_other_sizes_agree_with_litert(device: DeviceInfo, name: str, where: str) -> None:
    path = path_of(name)
    pytest.importorskip("ai_edge_litert.interpreter", reason="LiteRT is not installed")
    with fourfold.Session(path, device if where == "device" else "cpu", cache=None) as session:
        for shape in SIZES[name]:
            session.resize({session.inputs[0].name: shape})
            inputs = random_inputs(session.inputs, seed=1)
            rival = open_file(path.read_bytes(), list(inputs.values()), 2)
            for result, expected in zip(session.run(inputs).values(), rival(), strict=True):
                assert result.shape == expected.shape
                np.testing.assert_allclose(
                    result, expected, atol=TOLERANCE * value_range(expected), rtol=0
                )


@pytest.mark.parametrize("name", BATCHES)
def test_batched_results_equal_single_results(device: DeviceInfo, name: str) -> None:
    with fourfold.Session(path_of(name), device, cache=None) as session:
        images = [random_inputs(session.inputs, seed) for seed in range(3)]
        alone = [_run_from_reset(session, image) for image in images]
        batch = {key: np.concatenate([image[key] for image in images]) for key in images[0]}
        session.resize({key: array.shape for key, array in batch.items()})
        for key, result in session.run(batch).items():
            expected = np.concatenate([one[key] for one in alone])
            np.testing.assert_allclose(
                result, expected, atol=TOLERANCE * value_range(expected), rtol=0
            )


def _run_from_reset(session: fourfold.Session, inputs: Any) -> dict[str, np.ndarray]:
    session.reset()
    return session.run(inputs)


@pytest.mark.parametrize("name", list(REFUSED))
def test_error_names_the_operator_that_rejects_a_shape(device: DeviceInfo, name: str) -> None:
    shape, operator = REFUSED[name]
    with fourfold.Session(path_of(name), device, cache=None) as session:
        before = session.inputs
        with pytest.raises(InputError, match=operator):
            session.resize({session.inputs[0].name: shape})
        assert session.inputs == before
