"""Real models that take photographs as bytes: no kernel more than for floats, the same answer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from fake_devices import H200

import fourfold
from fourfold.compile import compile_model
from fourfold.device import DeviceInfo
from fourfold.options import CompileOptions
from fourfold.players.null import NULL_GPU
from fourfold.timings import Timings

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "models" / "tflite"
MODELS = (
    *("mobilenet_v1_025_224_float", "face_detection_short_range", "pnet", "iris_landmark"),
    *("posenet_mobilenet_385_float", "ssd_mobilenet_v2_fp16", "deeplab_v3_257_float"),
)


def path_of(name: str) -> Path:
    path = FOLDER / f"{name}.tflite"
    if not path.is_file():
        pytest.skip(f"{path.name} is not at hand")
    return path


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("facts", ["device", "gpu", "tensor cores"])
def test_no_launch_and_no_copy_more(name: str, facts: str, device: DeviceInfo) -> None:
    path = str(path_of(name))
    where = {"device": device, "gpu": NULL_GPU, "tensor cores": H200}[facts]
    # By itself a plan might become one launch because less is read.
    form = "one" if facts == "tensor cores" else "list"
    for precision in ("fp32", "mixed"):
        plain = compile_model(
            path, where, CompileOptions(precision, launches=form), {}, Timings()
        ).plan
        for order, bytes_ in (("bgr", 3), ("rgba", 4)):
            pixels = fourfold.Pixels(127.5, 127.5, order)
            options = CompileOptions(precision, launches=form, pixels=pixels)
            made = compile_model(path, where, options, {}, Timings()).plan
            assert (len(made.launches), made.stages) == (len(plain.launches), plain.stages)
            assert made.bytes("arena") == plain.bytes("arena")
            assert made.bytes("input") * 12 == plain.bytes("input") * bytes_


@pytest.mark.parametrize("name", ["mobilenet_v1_025_224_float", "face_detection_short_range"])
def test_the_same_answer(name: str, device: DeviceInfo) -> None:
    path, pixels = path_of(name), fourfold.Pixels((120, 128, 131), (127.5, 128, 111), "bgra")
    with (
        fourfold.Session(path, device, cache=None) as plain,
        fourfold.Session(path, device, cache=None, pixels=pixels) as session,
    ):
        shape = session.inputs[0].shape
        picture = np.random.default_rng(3).integers(0, 256, shape, np.uint8)
        real = (picture[..., 2::-1] - np.float32([120, 128, 131])) / np.float32([127.5, 128, 111])
        found, wanted = session.run(picture), plain.run(np.ascontiguousarray(real))
        for title, array in wanted.items():
            np.testing.assert_allclose(found[title], array, atol=1e-5 * float(np.ptp(array)))
