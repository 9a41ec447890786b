"""A session with `pixels` takes image bytes and returns what it would for normalized floats."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tflite_writer as writer
from runtimes import needs_litert

import fourfold
from fourfold.backends.cpu.reference import evaluate
from fourfold.device import DeviceInfo
from fourfold.errors import InputError
from fourfold.formats import ReadOptions, read_model
from fourfold.formats.tflite import walk
from fourfold.formats.tflite.convert import rules
from fourfold.options import CompileOptions
from fourfold.processing.pixels import ORDERS, Pixels, pixels_text
from fourfold.session import explain_stage
from fourfold.store.draft import Draft
from fourfold.tools.preparation import prepare_model

MEAN, STD = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
PIXELS = Pixels(MEAN, STD, "bgra")
MODEL_SHAPE = (1, 23, 19, 3)


def image_model(channels: int = 3, signature: tuple[int, ...] | None = None) -> bytes:
    """Return a model of a padded convolution, tanh, and a softmax over channels."""
    weights = np.random.default_rng(5).uniform(-1, 1, (6, 3, 3, channels)).astype(np.float32)
    result = (1, 12, 10, 6)
    return writer.write(
        [
            writer.Tensor("image", (*MODEL_SHAPE[:3], channels), signature=signature),
            writer.Tensor("w", weights.shape, data=weights),
            writer.Tensor("b", (6,), data=np.linspace(-1, 1, 6, dtype=np.float32)),
            *(writer.Tensor(name, result) for name in ("conv", "tanh", "y")),
        ],
        [
            writer.Operator("CONV_2D", ["image", "w", "b"], ["conv"], "Conv2DOptions",
                            {"StrideW": 2, "StrideH": 2, "Padding": 0}),
            writer.Operator("TANH", ["conv"], ["tanh"]),
            writer.Operator("SOFTMAX", ["tanh"], ["y"], "SoftmaxOptions", {"Beta": 1.0}),
        ],
        inputs=["image"],
        outputs=["y"],
    )  # fmt: skip


def photograph(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).integers(0, 256, shape, np.uint8)


def normalized(picture: np.ndarray, pixels: Pixels) -> np.ndarray:
    """Normalize as a caller without `pixels` would."""
    real = picture[..., list(ORDERS[pixels.order])].astype(np.float32)
    return (real - np.asarray(pixels.mean, np.float32)) / np.asarray(pixels.std, np.float32)


def expected(picture: np.ndarray, pixels: Pixels) -> np.ndarray:
    """Evaluate the model with the NumPy references, from floats."""
    real = normalized(picture, pixels)
    graph = read_model(image_model(pixels.channels), ReadOptions({"image": real.shape})).main
    return evaluate(graph, {"image": real})["y"]


def check_output(
    session: fourfold.Session, picture: np.ndarray, pixels: Pixels, tolerance: float
) -> None:
    output, expected_output = session.run(picture)["y"], expected(picture, pixels)
    assert output.shape == expected_output.shape
    np.testing.assert_allclose(output, expected_output, atol=tolerance, equal_nan=False)


@pytest.mark.parametrize("precision", ["fp32", "mixed"])
@pytest.mark.parametrize("order", ORDERS)
def test_supports_every_channel_order(order: str, precision: str, device: DeviceInfo) -> None:
    gray = order == "gray"
    pixels = Pixels(*((11.5, 37.0) if gray else (MEAN, STD)), order)
    model, tolerance = image_model(pixels.channels), 2e-6 if precision == "fp32" else 2e-3
    with fourfold.Session(model, device, precision, cache=None, pixels=pixels) as session:
        (info,) = session.inputs
        assert (info.name, info.dtype) == ("image", np.uint8)
        assert info.shape == (*MODEL_SHAPE[:3], pixels.bytes)
        assert info.pixels == str(pixels)
        check_output(session, photograph(info.shape), pixels, tolerance)


@pytest.mark.parametrize("form", ["list", "one"])
def test_pixels_work_with_a_launch_list_and_one_launch(
    form: str, device: DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOURFOLD_LAUNCHES", form)
    with fourfold.Session(image_model(), device, cache=None, pixels=PIXELS) as session:
        check_output(session, photograph((*MODEL_SHAPE[:3], 4)), PIXELS, 2e-6)


def test_rejects_floats_and_other_shapes(device: DeviceInfo) -> None:
    with fourfold.Session(image_model(), device, cache=None, pixels=PIXELS) as session:
        with pytest.raises(InputError, match="is float32, not uint8"):
            session.run(np.zeros((*MODEL_SHAPE[:3], 4), np.float32))
        with pytest.raises(InputError, match=r"has shape \(1, 23, 19, 3\)"):
            session.run(photograph(MODEL_SHAPE))


def test_pixels_support_shapes_and_batches(device: DeviceInfo) -> None:
    shapes = {"image": (3, 11, 7, 4)}
    for value in (PIXELS, {"image": PIXELS}):
        with fourfold.Session(image_model(), device, None, shapes, pixels=value) as session:
            assert session.inputs[0].shape == shapes["image"]
            check_output(session, photograph(shapes["image"]), PIXELS, 2e-6)
            session.resize((2, 5, 13, 4))
            check_output(session, photograph((2, 5, 13, 4)), PIXELS, 2e-6)
            with pytest.raises(InputError, match="cannot have the shape"):
                session.resize((2, 5, 13, 3))


def test_open_sizes_follow_the_image(device: DeviceInfo) -> None:
    model = image_model(signature=(-1, -1, -1, 3))
    with fourfold.Session(model, device, cache=None, pixels=PIXELS) as session:
        assert session.inputs[0].signature == (-1, -1, -1, 4)
        for shape in ((1, 7, 11, 4), (2, 5, 3, 4)):
            check_output(session, photograph(shape), PIXELS, 2e-6)
        with pytest.raises(InputError, match="no dynamic size"):
            session.run(photograph((1, 7, 11, 3)))


@needs_litert
def test_pixels_work_on_the_cpu(tmp_path: Path) -> None:
    for number in range(2):
        with fourfold.Session(
            image_model(), device="cpu", cache=tmp_path, pixels=PIXELS
        ) as session:
            assert session.hit is bool(number)
            assert session.inputs[0].pixels == str(PIXELS)
            check_output(session, photograph((*MODEL_SHAPE[:3], 4), number), PIXELS, 2e-6)
            session.resize((2, 5, 13, 4))
            check_output(session, photograph((2, 5, 13, 4)), PIXELS, 2e-6)


@pytest.fixture
def disabled_operator(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    supported = {name: rule for name, rule in rules().items() if name != request.param}
    monkeypatch.setattr(walk, "rules", lambda: supported)


@needs_litert
@pytest.mark.parametrize("disabled_operator", ["CONV_2D", "TANH"], indirect=True)
@pytest.mark.usefixtures("disabled_operator")
def test_pixels_work_with_several_parts(
    tmp_path: Path, device: DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first part runs either in LiteRT or on the device."""
    picture, results = photograph((*MODEL_SHAPE[:3], 4)), []
    for _ in range(2):
        options = {"cache": tmp_path, "pixels": PIXELS, "placement": "gpu"}
        with fourfold.Session(image_model(), device, **options) as session:
            results.append(session.run(picture)["y"])
            origin, parts = session.origin, session.placement.parts
    assert origin == "store"
    assert len(parts) > 1
    monkeypatch.undo()
    for result in results:
        np.testing.assert_allclose(result, expected(picture, PIXELS), atol=2e-6)


def test_cache_separates_pixel_options(tmp_path: Path, device: DeviceInfo) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(image_model())
    kinds = (None, PIXELS, Pixels(MEAN, STD), Pixels(0.5, STD, "bgra"), {"image": Pixels()})
    for again in (False, True):
        for value in kinds:
            options = {"cache": tmp_path / "store", "pixels": value}
            with fourfold.Session(path, device, **options) as session:
                assert session.hit is again
                if isinstance(value, Pixels):
                    check_output(session, photograph(session.inputs[0].shape), value, 2e-6)


def test_prepared_file_takes_image_bytes(tmp_path: Path, device: DeviceInfo) -> None:
    path, out = tmp_path / "model.tflite", tmp_path / "out.fourfold"
    path.write_bytes(image_model())
    draft = Draft()
    prepare_model(draft, path, device, CompileOptions(pixels=PIXELS), {})
    draft.write(out)
    for value in (None, PIXELS, {"image": PIXELS}):
        with fourfold.Session(out, device, cache=None, pixels=value) as session:
            assert session.origin == "file"
            assert session.inputs[0].pixels == str(PIXELS)
            check_output(session, photograph((*MODEL_SHAPE[:3], 4)), PIXELS, 2e-6)
    with pytest.raises(InputError, match=r"it was prepared for: bgra, mean 123\.675 116"):
        fourfold.Session(out, device, cache=None, pixels=Pixels())
    prepare_model(draft, path, device, CompileOptions(), {})
    draft.write(out)
    for value, dtype in ((None, np.float32), (PIXELS, np.uint8)):
        with fourfold.Session(out, device, cache=None, pixels=value) as session:
            assert session.inputs[0].dtype == dtype


@needs_litert
@pytest.mark.parametrize("disabled_operator", ["CONV_2D"], indirect=True)
@pytest.mark.usefixtures("disabled_operator")
def test_prepared_file_in_parts_takes_image_bytes(
    tmp_path: Path, device: DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, out = tmp_path / "model.tflite", tmp_path / "out.fourfold"
    path.write_bytes(image_model())
    draft = Draft()
    prepare_model(draft, path, device, CompileOptions(pixels=PIXELS), {})
    draft.write(out)
    picture = photograph((*MODEL_SHAPE[:3], 4))
    with fourfold.Session(out, device, cache=None) as session:
        assert session.origin == "file"
        output = session.run(picture)["y"]
    monkeypatch.undo()
    np.testing.assert_allclose(output, expected(picture, PIXELS), atol=2e-6)


def test_pixels_add_no_kernel() -> None:
    bytes_ = CompileOptions(pixels=PIXELS)
    plain, with_pixels = (
        explain_stage(image_model(), "plan", None, options) for options in (None, bytes_)
    )
    assert len(plain.splitlines()) == len(with_pixels.splitlines())
    assert "input image: u8[1,23,19,4]" in with_pixels
    assert "uchar" in explain_stage(image_model(), "kernels", None, bytes_)


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ({"order": "rgbx"}, "did you mean 'rgb' or 'rgba'"),
        ({"std": 0}, "divided by it"),
        ({"std": (1, 0, 1)}, "divided by it"),
        ({"mean": (1, 2)}, "pass one number, or 3 of them"),
        ({"mean": (1, 2, 3), "order": "gray"}, "pass one number, or 1 of them"),
        ({"mean": "red"}, "the mean of pixels is 'red'"),
        ({"mean": float("nan")}, "the mean of pixels is nan"),
        ({"std": (1, 2, float("inf"))}, "the std of pixels is"),
    ],
)
def test_rejects_invalid_pixels(arguments: dict[str, object], part: str) -> None:
    with pytest.raises(InputError, match=part):
        Pixels(**arguments)  # type: ignore[arg-type]


def test_equal_channel_values_are_shortened() -> None:
    inputs = Pixels(np.full(3, 127.5), [2, 2, 2])
    assert inputs == Pixels(127.5, 2)
    assert str(inputs) == "rgb, mean 127.5, std 2.0"
    assert str(Pixels((1, 1, 2), -0.5)) == "rgb, mean 1.0 1.0 2.0, std -0.5"
    assert pixels_text({"b": inputs, "a": inputs}) == f"a: {inputs}; b: {inputs}"
    assert pixels_text(None) == ""


@pytest.mark.needs_device
@pytest.mark.parametrize("value", ["rgb", {"image": "rgb"}, 3])
def test_session_rejects_other_pixel_types(value: object) -> None:
    with pytest.raises(InputError, match=r"pass fourfold\.Pixels"):
        fourfold.Session(image_model(), cache=None, pixels=value)


def test_rejects_unknown_inputs_and_channel_counts(device: DeviceInfo) -> None:
    with pytest.raises(InputError, match="no input 'picture'"):
        fourfold.Session(image_model(), device, cache=None, pixels={"picture": Pixels()})
    with pytest.raises(InputError, match="it has 1 channels"):
        fourfold.Session(image_model(1), device, cache=None, pixels=Pixels())


@pytest.mark.needs_device
def test_pixels_module_is_imported_lazily() -> None:
    code = "import fourfold, sys; sys.exit('fourfold.processing.pixels' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
