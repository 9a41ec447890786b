"""Sessions that take frames of any size, also of cameras, return the model's results for floats."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tflite_writer as writer
from runtimes import needs_litert

import fourfold
from fourfold.backends.cpu import litert
from fourfold.backends.cpu.reference import evaluate
from fourfold.device import DeviceInfo
from fourfold.errors import InputError
from fourfold.formats import ReadOptions, read_model
from fourfold.formats.tflite import walk
from fourfold.formats.tflite.convert import rules
from fourfold.options import CompileOptions
from fourfold.processing.pixels import Pixels
from fourfold.session import explain_stage
from fourfold.store.draft import Draft
from fourfold.tools.preparation import prepare_model
from fourfold.types import Shape

MEAN, STD = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
OWN = (1, 23, 19, 3)
WAYS = {
    "nv12": Pixels(MEAN, STD, "nv12", fit="letterbox"),
    "nv21": Pixels(MEAN, STD, "nv21", fit="crop", resize="area", matrix="bt709"),
    "yuv420": Pixels(MEAN, STD, "yuv420", fit="stretch", resize="nearest", model_order="bgr"),
    "rgba": Pixels(MEAN, STD, "rgba", fit="letterbox", fill=(7, 8, 9), crop=(3, 5, 29, 31)),
    "bgr": Pixels(127.5, 127.5, "bgr", fit="crop", resize="antialias"),
}
SIZE = (38, 46)


def image_model(dtype: str = "float32") -> bytes:
    """Return a padded convolution with tanh; for an integer dtype, a relu."""
    weights = np.random.default_rng(5).uniform(-1, 1, (6, 3, 3, 3)).astype(np.float32)
    made = (1, 12, 10, 6)
    if dtype != "float32":
        grid = {"scale": [0.5], "zero_point": [3]}
        ends = [writer.Tensor("image", OWN, dtype, **grid), writer.Tensor("y", OWN, dtype, **grid)]
        relu = writer.Operator("RELU", ["image"], ["y"])
        return writer.write(ends, [relu], inputs=["image"], outputs=["y"])
    strides = {"StrideW": 2, "StrideH": 2, "Padding": 0}
    return writer.write(
        [
            writer.Tensor("image", OWN),
            writer.Tensor("w", weights.shape, data=weights),
            writer.Tensor("b", (6,), data=np.linspace(-1, 1, 6, dtype=np.float32)),
            *(writer.Tensor(name, made) for name in ("conv", "y")),
        ],
        [
            writer.Operator("CONV_2D", ["image", "w", "b"], ["conv"], "Conv2DOptions", strides),
            writer.Operator("TANH", ["conv"], ["y"]),
        ],
        inputs=["image"],
        outputs=["y"],
    )


def frames(pixels: Pixels, size: tuple[int, int] = SIZE, batch: int = 1) -> np.ndarray:
    shape = pixels.frame_shape(batch, size)
    return np.random.default_rng([7, *shape]).integers(0, 256, shape, np.uint8)


def expected(given: np.ndarray, pixels: Pixels, model: Shape = OWN) -> np.ndarray:
    """Return the result by definition: pixels become floats, and NumPy evaluates the graph."""
    real = pixels.real(given, (len(given), *model[1:]))
    graph = read_model(image_model(), ReadOptions({"image": real.shape})).main
    return evaluate(graph, {"image": real})["y"]


def agrees(session: fourfold.Session, given: np.ndarray, pixels: Pixels, near: float) -> None:
    found, wanted = session.run(given)["y"], expected(given, pixels)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, atol=near, equal_nan=False)


@pytest.mark.parametrize("precision", ["fp32", "mixed"])
@pytest.mark.parametrize("way", WAYS)
def test_every_way(way: str, precision: str, device: DeviceInfo) -> None:
    pixels, near = replace(WAYS[way], size=SIZE), 5e-6 if precision == "fp32" else 4e-3
    with fourfold.Session(image_model(), device, precision, cache=None, pixels=pixels) as session:
        (info,) = session.inputs
        assert (info.pixels, info.shape) == (str(pixels), pixels.frame_shape(1, SIZE))
        agrees(session, frames(pixels), pixels, near)


def test_frames_of_any_size(device: DeviceInfo) -> None:
    pixels = WAYS["nv12"]
    with fourfold.Session(image_model(), device, cache=None, pixels=pixels) as session:
        assert session.inputs[0].signature == (1, -1, -1)
        assert session.inputs[0].shape == (1, 36, 20)  # the model's own size, made even
        for size in ((24, 20), (50, 14), (24, 20)):
            agrees(session, frames(pixels, size), pixels, 5e-6)
        with pytest.raises(InputError, match=r"\[batch, height \* 3 / 2, width\]"):
            session.run(np.zeros((1, 37, 20), np.uint8))
        session.resize((3, 36, 20))
        agrees(session, frames(pixels, (24, 20), 3), pixels, 5e-6)


def test_frames_of_one_size(device: DeviceInfo) -> None:
    pixels = Pixels(MEAN, STD, "bgra", SIZE, "letterbox")
    with fourfold.Session(image_model(), device, cache=None, pixels=pixels) as session:
        assert session.inputs[0].signature == ()
        with pytest.raises(InputError, match="has shape"):
            session.run(frames(pixels, (20, 20)))
        with pytest.raises(InputError, match=r"its pixels are bgra of size \(38, 46\)"):
            session.resize((1, 20, 20, 4))
        session.resize((2, *SIZE, 4))
        agrees(session, frames(pixels, batch=2), pixels, 5e-6)


@needs_litert
@pytest.mark.parametrize("way", ["nv21", "rgba"])
def test_on_the_cpu(way: str, tmp_path: Path) -> None:
    pixels = WAYS[way]
    for number in range(2):
        with fourfold.Session(
            image_model(), device="cpu", cache=tmp_path, pixels=pixels
        ) as session:
            assert session.hit is bool(number)
            agrees(session, frames(pixels), pixels, 5e-6)


@pytest.fixture
def without(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    known = {name: rule for name, rule in rules().items() if name != request.param}
    monkeypatch.setattr(walk, "rules", lambda: known)


@needs_litert
@pytest.mark.parametrize("without", ["CONV_2D", "TANH"], indirect=True)
@pytest.mark.usefixtures("without")
def test_in_parts(tmp_path: Path, device: DeviceInfo, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first part runs in LiteRT or on the device."""
    pixels, results = WAYS["nv12"], []
    for _ in range(2):
        options = {"cache": tmp_path, "pixels": pixels, "placement": "gpu"}
        with fourfold.Session(image_model(), device, **options) as session:
            results.append(session.run(frames(pixels))["y"])
            origin, parts = session.origin, session.placement.parts
    assert origin == "store"
    assert len(parts) > 1
    monkeypatch.undo()
    for found in results:
        np.testing.assert_allclose(found, expected(frames(pixels), pixels), atol=5e-6)


def test_the_store_keeps_them_apart(tmp_path: Path, device: DeviceInfo) -> None:
    ways = ({"fit": "letterbox"}, {"fit": "crop"}, {"matrix": "bt709"}, {"resize": "area"})
    for again in (False, True):
        for way in ways:
            pixels = Pixels(MEAN, STD, "nv12", SIZE, **way)
            with fourfold.Session(image_model(), device, cache=tmp_path, pixels=pixels) as session:
                assert session.hit is again
                agrees(session, frames(pixels), pixels, 5e-6)


def test_a_prepared_file_takes_frames(tmp_path: Path, device: DeviceInfo) -> None:
    path, out = tmp_path / "model.tflite", tmp_path / "out.fourfold"
    path.write_bytes(image_model())
    pixels = Pixels(MEAN, STD, "nv12", SIZE, "letterbox")
    draft = Draft()
    prepare_model(draft, path, device, CompileOptions(pixels=pixels), {})
    draft.write(out)
    for given in (None, pixels):
        with fourfold.Session(out, device, cache=None, pixels=given) as session:
            assert session.origin == "file"
            assert session.inputs[0].pixels == str(pixels)
            agrees(session, frames(pixels), pixels, 5e-6)
    with pytest.raises(InputError, match="fit letterbox"):
        fourfold.Session(out, device, cache=None, pixels=Pixels(MEAN, STD, "nv12"))


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("where", ["device", "cpu"])
def test_models_that_take_bytes_get_them_rounded(
    dtype: str, where: str, device: DeviceInfo
) -> None:
    if where == "cpu" and not litert.ENGINE.installed():
        pytest.skip("LiteRT is not installed")
    pixels = Pixels(order="nv12", fit="letterbox", resize="area")
    given, model = frames(pixels), image_model(dtype)
    shift = 128 if dtype == "int8" else 0
    bytes_ = np.rint(pixels.real(given, OWN) - shift).astype(dtype)
    place = device if where == "device" else "cpu"
    with (
        fourfold.Session(model, place, cache=None) as plain,
        fourfold.Session(model, place, cache=None, pixels=pixels) as session,
    ):
        assert session.inputs[0].quantization is None
        found, wanted = session.run(given)["y"], plain.run(bytes_)["y"]
    assert found.dtype == dtype
    apart = np.abs(found.astype(int) - wanted)  # a byte may differ at a rounding tie
    assert apart.max() <= 1
    assert (apart > 0).mean() < 0.01
    with pytest.raises(InputError, match="leave mean= and std= of the pixels out"):
        fourfold.Session(model, place, cache=None, pixels=Pixels(1.0, order="nv12"))


def test_it_can_be_looked_at() -> None:
    pixels = Pixels(MEAN, STD, "nv12", SIZE, "letterbox")
    graph = explain_stage(
        image_model(), "graph", None, CompileOptions(pixels=pixels), full_names=True
    )
    assert "input image: u8[1,57,46]" in graph
    assert "image/real = frame(image; order=nv12" in graph
    assert (
        "fit=FrameFit(box=(0, 0, 38, 46), size=(16, 19), offset=(3, 0), target=(23, 19))" in graph
    )
    assert "void frame_0(" in explain_stage(
        image_model(), "kernels", None, CompileOptions(pixels=pixels)
    )


def test_a_frame_of_the_model_s_own_size_costs_no_kernel() -> None:
    fitted = CompileOptions(pixels=Pixels(MEAN, STD, "bgra", fit="letterbox"))
    plain, fitted_plan = (explain_stage(image_model(), "plan", None, how) for how in (None, fitted))
    assert len(plain.splitlines()) == len(fitted_plan.splitlines())


def channels_first_model(sizes: tuple[int | str, ...]) -> bytes:
    onnx = pytest.importorskip("onnx_writer")
    weights = np.random.default_rng(5).uniform(-1, 1, (6, 3, 3, 3)).astype(np.float32)
    content: bytes = onnx.small_model("Conv", {"x": sizes}, {"w": weights}, pads=[1, 1, 1, 1])
    return content


@pytest.mark.parametrize("way", [*WAYS, "plain"])
def test_channels_before_rows(way: str, device: DeviceInfo) -> None:
    pixels = WAYS.get(way, Pixels(MEAN, STD, "bgra"))
    model, size = channels_first_model((1, 3, 23, 19)), SIZE if way in WAYS else (23, 19)
    given = frames(pixels, size)
    real = pixels.real(given, (1, 3, 23, 19))
    wanted = evaluate(read_model(model).main, {"x": real})["y"]
    with fourfold.Session(model, device, cache=None, pixels=pixels) as session:
        np.testing.assert_allclose(session.run(given)["y"], wanted, atol=1e-4)
        transposes = sum("transpose" in launch.entry for launch in session.plan.launches)
        assert transposes <= 1  # only the result is transposed


def test_a_model_that_leaves_its_size_open(device: DeviceInfo) -> None:
    model, pixels = channels_first_model(("n", 3, "h", "w")), WAYS["nv12"]
    into = replace(pixels, into=(16, 32))
    given = frames(pixels)
    real = pixels.real(given, (1, 3, 16, 32))
    graph = read_model(model, ReadOptions({"x": (1, 3, 16, 32)})).main
    with fourfold.Session(model, device, cache=None, pixels={"x": into}) as session:
        wanted = evaluate(graph, {"x": real})["y"]
        np.testing.assert_allclose(session.run(given)["y"], wanted, atol=1e-4)
        assert session.inputs[0].signature == (-1, -1, -1)
    with pytest.raises(InputError, match="say which input the pixels are for, and its size"):
        fourfold.Session(model, device, cache=None, pixels=into)
    with pytest.raises(InputError, match="the shape of input 'x' is needed"):
        fourfold.Session(model, device, cache=None, pixels={"x": pixels})


@pytest.mark.needs_device
def test_a_missing_file_is_reported_as_without_pixels() -> None:
    for given in (WAYS["nv12"], {"x": WAYS["nv12"]}):
        with pytest.raises(InputError, match="check the path"):
            fourfold.Session("nowhere.onnx", cache=None, pixels=given)
