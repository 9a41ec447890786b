"""Pixels: a session that takes a photograph's bytes gives what it would give for floats."""

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
OWN = (1, 23, 19, 3)


def image_model(channels: int = 3, signature: tuple[int, ...] | None = None) -> bytes:
    """A convolution that pads, tanh of it, and a softmax over channels."""
    weights = np.random.default_rng(5).uniform(-1, 1, (6, 3, 3, channels)).astype(np.float32)
    made = (1, 12, 10, 6)
    return writer.write(
        [
            writer.Tensor("image", (*OWN[:3], channels), signature=signature),
            writer.Tensor("w", weights.shape, data=weights),
            writer.Tensor("b", (6,), data=np.linspace(-1, 1, 6, dtype=np.float32)),
            *(writer.Tensor(name, made) for name in ("conv", "tanh", "y")),
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


def normalised(picture: np.ndarray, pixels: Pixels) -> np.ndarray:
    """What a caller without pixels= does, spelled out."""
    real = picture[..., list(ORDERS[pixels.order])].astype(np.float32)
    return (real - np.asarray(pixels.mean, np.float32)) / np.asarray(pixels.std, np.float32)


def expected(picture: np.ndarray, pixels: Pixels) -> np.ndarray:
    """By the definitions of the ops, from floats."""
    real = normalised(picture, pixels)
    graph = read_model(image_model(pixels.channels), ReadOptions({"image": real.shape})).main
    return evaluate(graph, {"image": real})["y"]


def agrees(session: fourfold.Session, picture: np.ndarray, pixels: Pixels, near: float) -> None:
    found, wanted = session.run(picture)["y"], expected(picture, pixels)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, atol=near, equal_nan=False)


@pytest.mark.parametrize("precision", ["fp32", "mixed"])
@pytest.mark.parametrize("order", ORDERS)
def test_every_order(order: str, precision: str, device: DeviceInfo) -> None:
    gray = order == "gray"
    pixels = Pixels(*((11.5, 37.0) if gray else (MEAN, STD)), order)
    model, near = image_model(pixels.channels), 2e-6 if precision == "fp32" else 2e-3
    with fourfold.Session(model, device, precision, cache=None, pixels=pixels) as session:
        (info,) = session.inputs
        assert (info.name, info.dtype) == ("image", np.uint8)
        assert info.shape == (*OWN[:3], pixels.bytes)
        assert info.pixels == str(pixels)
        agrees(session, photograph(info.shape), pixels, near)


@pytest.mark.parametrize("form", ["list", "one"])
def test_both_forms_of_launches(
    form: str, device: DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOURFOLD_LAUNCHES", form)
    with fourfold.Session(image_model(), device, cache=None, pixels=PIXELS) as session:
        agrees(session, photograph((*OWN[:3], 4)), PIXELS, 2e-6)


def test_only_bytes_are_taken_then(device: DeviceInfo) -> None:
    with fourfold.Session(image_model(), device, cache=None, pixels=PIXELS) as session:
        with pytest.raises(InputError, match="is float32, not uint8"):
            session.run(np.zeros((*OWN[:3], 4), np.float32))
        with pytest.raises(InputError, match=r"has shape \(1, 23, 19, 3\)"):
            session.run(photograph(OWN))


def test_shapes_and_batches(device: DeviceInfo) -> None:
    shapes = {"image": (3, 11, 7, 4)}
    for given in (PIXELS, {"image": PIXELS}):
        with fourfold.Session(image_model(), device, None, shapes, pixels=given) as session:
            assert session.inputs[0].shape == shapes["image"]
            agrees(session, photograph(shapes["image"]), PIXELS, 2e-6)
            session.resize((2, 5, 13, 4))
            agrees(session, photograph((2, 5, 13, 4)), PIXELS, 2e-6)
            with pytest.raises(InputError, match="cannot have the shape"):
                session.resize((2, 5, 13, 3))


def test_open_sizes_follow_the_picture(device: DeviceInfo) -> None:
    model = image_model(signature=(-1, -1, -1, 3))
    with fourfold.Session(model, device, cache=None, pixels=PIXELS) as session:
        assert session.inputs[0].signature == (-1, -1, -1, 4)
        for shape in ((1, 7, 11, 4), (2, 5, 3, 4)):
            agrees(session, photograph(shape), PIXELS, 2e-6)
        with pytest.raises(InputError, match="no dynamic size"):
            session.run(photograph((1, 7, 11, 3)))


@needs_litert
def test_on_the_cpu(tmp_path: Path) -> None:
    for number in range(2):
        with fourfold.Session(
            image_model(), device="cpu", cache=tmp_path, pixels=PIXELS
        ) as session:
            assert session.hit is bool(number)
            assert session.inputs[0].pixels == str(PIXELS)
            agrees(session, photograph((*OWN[:3], 4), number), PIXELS, 2e-6)
            session.resize((2, 5, 13, 4))
            agrees(session, photograph((2, 5, 13, 4)), PIXELS, 2e-6)


@pytest.fixture
def without(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    known = {name: rule for name, rule in rules().items() if name != request.param}
    monkeypatch.setattr(walk, "rules", lambda: known)


@needs_litert
@pytest.mark.parametrize("without", ["CONV_2D", "TANH"], indirect=True)
@pytest.mark.usefixtures("without")
def test_in_parts(tmp_path: Path, device: DeviceInfo, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first part runs in LiteRT, or on the device."""
    picture, results = photograph((*OWN[:3], 4)), []
    for _ in range(2):
        options = {"cache": tmp_path, "pixels": PIXELS, "placement": "gpu"}
        with fourfold.Session(image_model(), device, **options) as session:
            results.append(session.run(picture)["y"])
            origin, parts = session.origin, session.placement.parts
    assert origin == "store"
    assert len(parts) > 1
    monkeypatch.undo()
    for found in results:
        np.testing.assert_allclose(found, expected(picture, PIXELS), atol=2e-6)


def test_the_store_keeps_them_apart(tmp_path: Path, device: DeviceInfo) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(image_model())
    kinds = (None, PIXELS, Pixels(MEAN, STD), Pixels(0.5, STD, "bgra"), {"image": Pixels()})
    for again in (False, True):
        for given in kinds:
            how = {"cache": tmp_path / "store", "pixels": given}
            with fourfold.Session(path, device, **how) as session:
                assert session.hit is again
                if isinstance(given, Pixels):
                    agrees(session, photograph(session.inputs[0].shape), given, 2e-6)


def test_a_prepared_file_takes_bytes(tmp_path: Path, device: DeviceInfo) -> None:
    path, out = tmp_path / "model.tflite", tmp_path / "out.fourfold"
    path.write_bytes(image_model())
    draft = Draft()
    prepare_model(draft, path, device, CompileOptions(pixels=PIXELS), {})
    draft.write(out)
    for given in (None, PIXELS, {"image": PIXELS}):
        with fourfold.Session(out, device, cache=None, pixels=given) as session:
            assert session.origin == "file"
            assert session.inputs[0].pixels == str(PIXELS)
            agrees(session, photograph((*OWN[:3], 4)), PIXELS, 2e-6)
    with pytest.raises(InputError, match=r"it was prepared for: bgra, mean 123\.675 116"):
        fourfold.Session(out, device, cache=None, pixels=Pixels())
    prepare_model(draft, path, device, CompileOptions(), {})
    draft.write(out)
    for given, dtype in ((None, np.float32), (PIXELS, np.uint8)):
        with fourfold.Session(out, device, cache=None, pixels=given) as session:
            assert session.inputs[0].dtype == dtype


@needs_litert
@pytest.mark.parametrize("without", ["CONV_2D"], indirect=True)
@pytest.mark.usefixtures("without")
def test_a_prepared_file_in_parts(
    tmp_path: Path, device: DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, out = tmp_path / "model.tflite", tmp_path / "out.fourfold"
    path.write_bytes(image_model())
    draft = Draft()
    prepare_model(draft, path, device, CompileOptions(pixels=PIXELS), {})
    draft.write(out)
    picture = photograph((*OWN[:3], 4))
    with fourfold.Session(out, device, cache=None) as session:
        assert session.origin == "file"
        found = session.run(picture)["y"]
    monkeypatch.undo()
    np.testing.assert_allclose(found, expected(picture, PIXELS), atol=2e-6)


def test_no_kernel_more() -> None:
    bytes_ = CompileOptions(pixels=PIXELS)
    plain, taken = (explain_stage(image_model(), "plan", None, how) for how in (None, bytes_))
    assert len(plain.splitlines()) == len(taken.splitlines())
    assert "input image: u8[1,23,19,4]" in taken
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
def test_what_is_wrong_with_pixels(arguments: dict[str, object], part: str) -> None:
    with pytest.raises(InputError, match=part):
        Pixels(**arguments)  # type: ignore[arg-type]


def test_equal_numbers_are_one() -> None:
    given = Pixels(np.full(3, 127.5), [2, 2, 2])
    assert given == Pixels(127.5, 2)
    assert str(given) == "rgb, mean 127.5, std 2.0"
    assert str(Pixels((1, 1, 2), -0.5)) == "rgb, mean 1.0 1.0 2.0, std -0.5"
    assert pixels_text({"b": given, "a": given}) == f"a: {given}; b: {given}"
    assert pixels_text(None) == ""


@pytest.mark.needs_device
@pytest.mark.parametrize("given", ["rgb", {"image": "rgb"}, 3])
def test_a_session_takes_nothing_else(given: object) -> None:
    with pytest.raises(InputError, match=r"pass fourfold\.Pixels"):
        fourfold.Session(image_model(), cache=None, pixels=given)


def test_names_and_channels_are_checked(device: DeviceInfo) -> None:
    with pytest.raises(InputError, match="no input 'picture'"):
        fourfold.Session(image_model(), device, cache=None, pixels={"picture": Pixels()})
    with pytest.raises(InputError, match="it has 1 channels"):
        fourfold.Session(image_model(1), device, cache=None, pixels=Pixels())


@pytest.mark.needs_device
def test_a_session_without_them_does_not_import_them() -> None:
    code = "import fourfold, sys; sys.exit('fourfold.processing.pixels' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
