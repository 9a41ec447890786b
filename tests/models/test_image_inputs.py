"""Real models take image bytes without an extra kernel and with the same results, and camera frames
with one extra kernel.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_devices import H200
from model_collection import TFLITE, at_hand
from runtimes import interpreter as open_litert
from runtimes import run as run_litert

import fourfold
from fourfold.backends.null import NULL_GPU
from fourfold.compiler.compile import compile_model
from fourfold.device import DeviceInfo
from fourfold.options import CompileOptions
from fourfold.processing import MediaPipeBoxes

MODELS = (
    *("mobilenet_v1_025_224_float", "face_detection_short_range", "pnet", "iris_landmark"),
    *("posenet_mobilenet_385_float", "ssd_mobilenet_v2_fp16", "deeplab_v3_257_float"),
)


def path_of(name: str) -> Path:
    return at_hand(TFLITE / f"{name}.tflite")


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("facts", ["device", "gpu", "tensor cores"])
def test_image_bytes_need_no_extra_launch_or_copy(
    name: str, facts: str, device: DeviceInfo
) -> None:
    path = str(path_of(name))
    where = {"device": device, "gpu": NULL_GPU, "tensor cores": H200}[facts]
    # The form is fixed: with fewer bytes to read, `auto` might choose one launch.
    form = "one" if facts == "tensor cores" else "list"
    for precision in ("fp32", "mixed"):
        plain = compile_model(path, where, CompileOptions(precision, launches=form)).plan
        for order, bytes_ in (("bgr", 3), ("rgba", 4)):
            pixels = fourfold.Pixels(127.5, 127.5, order)
            options = CompileOptions(precision, launches=form, pixels=pixels)
            result = compile_model(path, where, options).plan
            assert (len(result.launches), result.stages) == (len(plain.launches), plain.stages)
            assert result.bytes("arena") == plain.bytes("arena")
            assert result.bytes("input") * 12 == plain.bytes("input") * bytes_


@pytest.mark.parametrize("name", ["mobilenet_v1_025_224_float", "face_detection_short_range"])
def test_image_bytes_and_floats_give_the_same_results(name: str, device: DeviceInfo) -> None:
    path, pixels = path_of(name), fourfold.Pixels((120, 128, 131), (127.5, 128, 111), "bgra")
    with (
        fourfold.Session(path, device, cache=None) as plain,
        fourfold.Session(path, device, cache=None, pixels=pixels) as session,
    ):
        shape = session.inputs[0].shape
        picture = np.random.default_rng(3).integers(0, 256, shape, np.uint8)
        real = (picture[..., 2::-1] - np.float32([120, 128, 131])) / np.float32([127.5, 128, 111])
        outputs, expected = session.run(picture), plain.run(np.ascontiguousarray(real))
        for title, array in expected.items():
            np.testing.assert_allclose(outputs[title], array, atol=1e-5 * float(np.ptp(array)))


FRAMES = {
    "mobilenet_v1_025_224_float": fourfold.Pixels(127.5, 127.5, "nv12", (270, 480), "letterbox"),
    "face_detection_short_range": fourfold.Pixels(
        127.5, 127.5, "yuv420", (480, 270), "crop", "area", matrix="bt709"
    ),
    "ultraface_rfb_320": fourfold.Pixels(127, 128, "bgra", (361, 641), resize="nearest"),
}


def test_frames_need_one_extra_kernel() -> None:
    for name, pixels in FRAMES.items():
        path = str(path_of(name))
        for where in (NULL_GPU, H200):
            plain, result = (
                compile_model(path, where, CompileOptions(launches="list", pixels=value)).plan
                for value in (None, pixels)
            )
            assert len(result.launches) == len(plain.launches) + 1
            assert result.launches[0].entry.startswith("frame")


@pytest.mark.parametrize("name", FRAMES)
def test_frame_results_agree_with_litert(name: str, device: DeviceInfo) -> None:
    pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed")
    path, pixels = path_of(name), FRAMES[name]
    assert pixels.size is not None
    shape = pixels.frame_shape(1, pixels.size)
    ramp = np.linspace(0, 255, int(np.prod(shape)), dtype=np.float32).reshape(shape)
    noise = np.random.default_rng(3).uniform(-40, 40, shape)
    frame = np.clip(ramp + noise, 0, 255).astype(np.uint8)
    interpreter = open_litert("ai_edge_litert", path.read_bytes())
    (detail,) = interpreter.get_input_details()
    real = pixels.real(frame, tuple(int(size) for size in detail["shape"]))
    expected = run_litert(interpreter, [real])
    for where in (device, "cpu"):
        with fourfold.Session(path, where, cache=None, pixels=pixels) as session:
            outputs = session.run(frame)
            assert session.inputs[0].shape == shape
        for ours, array in zip(outputs.values(), expected, strict=True):
            np.testing.assert_allclose(ours, array, atol=1e-4 * float(np.ptp(array)))


def nv12_frame(path: Path, left: int, width: int) -> np.ndarray:
    """Return a square photograph in a wide frame, in a camera's format."""
    image = pytest.importorskip("PIL.Image")
    with image.open(path) as photograph:
        y, u, v = (np.asarray(one) for one in photograph.convert("YCbCr").split())
    height, right = len(y), width - left - len(y)
    colors = np.stack([u[::2, ::2], v[::2, ::2]], axis=-1).reshape(height // 2, -1)
    sides = ((0, 0), (left, right))
    return np.concatenate([np.pad(y, sides), np.pad(colors, sides, constant_values=128)])[None]


@pytest.mark.parametrize(
    "options",
    [
        {"fit": "letterbox", "resize": "area"},
        {"fit": "stretch", "resize": "antialias"},
        {"fit": "crop"},
        {"fit": "letterbox", "crop": (32, 70, 400, 460)},
    ],
    ids=lambda options: "-".join(map(str, options.values())),
)
def test_boxes_are_mapped_to_the_frame(options: dict[str, Any], device: DeviceInfo) -> None:
    size, path = (512, 600), path_of("face_detection_short_range")
    frame = nv12_frame(Path(__file__).resolve().parents[2] / "docs" / "faces.jpg", 40, size[1])
    pixels = fourfold.Pixels(127.5, 127.5, "nv12", size, fill=0, matrix="bt601-full", **options)
    with fourfold.Session(
        path, device, cache=None, pixels=pixels, postprocess=MediaPipeBoxes()
    ) as session:
        outputs = session.run(frame)
    assert outputs["count"][0] >= 1
    boxes = pixels.fit_frame(size, (128, 128)).boxes_to_frame(outputs["boxes"][0, :1])
    # Top, left, bottom and right of the face, estimated by eye.
    np.testing.assert_allclose(boxes, [[76, 215, 174, 313]], atol=20)
