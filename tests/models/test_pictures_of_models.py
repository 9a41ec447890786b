"""Real models that take photographs as bytes: no kernel more than for floats, the same answer; and
frames of a camera, for one kernel more.
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
def test_no_launch_and_no_copy_more(name: str, facts: str, device: DeviceInfo) -> None:
    path = str(path_of(name))
    where = {"device": device, "gpu": NULL_GPU, "tensor cores": H200}[facts]
    # By itself a plan might become one launch because less is read.
    form = "one" if facts == "tensor cores" else "list"
    for precision in ("fp32", "mixed"):
        plain = compile_model(path, where, CompileOptions(precision, launches=form)).plan
        for order, bytes_ in (("bgr", 3), ("rgba", 4)):
            pixels = fourfold.Pixels(127.5, 127.5, order)
            options = CompileOptions(precision, launches=form, pixels=pixels)
            made = compile_model(path, where, options).plan
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


FRAMES = {
    "mobilenet_v1_025_224_float": fourfold.Pixels(127.5, 127.5, "nv12", (270, 480), "letterbox"),
    "face_detection_short_range": fourfold.Pixels(
        127.5, 127.5, "yuv420", (480, 270), "crop", "area", matrix="bt709"
    ),
    "ultraface_rfb_320": fourfold.Pixels(127, 128, "bgra", (361, 641), resize="nearest"),
}


def test_frames_make_one_kernel_more() -> None:
    for name, pixels in FRAMES.items():
        path = str(path_of(name))
        for where in (NULL_GPU, H200):
            plain, made = (
                compile_model(path, where, CompileOptions(launches="list", pixels=given)).plan
                for given in (None, pixels)
            )
            assert len(made.launches) == len(plain.launches) + 1
            assert made.launches[0].entry.startswith("frame")


@pytest.mark.parametrize("name", FRAMES)
def test_frames_give_what_litert_gives(name: str, device: DeviceInfo) -> None:
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
    wanted = run_litert(interpreter, [real])
    for where in (device, "cpu"):
        with fourfold.Session(path, where, cache=None, pixels=pixels) as session:
            found = session.run(frame)
            assert session.inputs[0].shape == shape
        for ours, array in zip(found.values(), wanted, strict=True):
            np.testing.assert_allclose(ours, array, atol=1e-4 * float(np.ptp(array)))


def nv12_of(path: Path, left: int, width: int) -> np.ndarray:
    """A square photograph in a wide frame, as a camera would give it."""
    image = pytest.importorskip("PIL.Image")
    with image.open(path) as photograph:
        y, u, v = (np.asarray(one) for one in photograph.convert("YCbCr").split())
    height, right = len(y), width - left - len(y)
    colors = np.stack([u[::2, ::2], v[::2, ::2]], axis=-1).reshape(height // 2, -1)
    sides = ((0, 0), (left, right))
    return np.concatenate([np.pad(y, sides), np.pad(colors, sides, constant_values=128)])[None]


@pytest.mark.parametrize(
    "how",
    [
        {"fit": "letterbox", "resize": "area"},
        {"fit": "stretch", "resize": "antialias"},
        {"fit": "crop"},
        {"fit": "letterbox", "crop": (32, 70, 400, 460)},
    ],
    ids=lambda how: "-".join(map(str, how.values())),
)
def test_a_face_is_where_it_is_in_the_frame(how: dict[str, Any], device: DeviceInfo) -> None:
    size, path = (512, 600), path_of("face_detection_short_range")
    frame = nv12_of(Path(__file__).resolve().parents[2] / "docs" / "faces.jpg", 40, size[1])
    pixels = fourfold.Pixels(127.5, 127.5, "nv12", size, fill=0, matrix="bt601-full", **how)
    with fourfold.Session(
        path, device, cache=None, pixels=pixels, postprocess=MediaPipeBoxes()
    ) as session:
        found = session.run(frame)
    assert found["count"][0] >= 1
    boxes = pixels.fit_frame(size, (128, 128)).boxes_to_frame(found["boxes"][0, :1])
    # Top, left, bottom and right of the face, by eye.
    np.testing.assert_allclose(boxes, [[76, 215, 174, 313]], atol=20)
