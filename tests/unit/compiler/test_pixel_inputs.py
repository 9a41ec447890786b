"""Inputs of a model that accept image bytes, and their shapes."""

from __future__ import annotations

import re

import pytest
from tflite_writer import Operator, Tensor, write

from fourfold.compiler.pixel_inputs import InputSizes, find_pictures, frame_sizes, real_shapes
from fourfold.errors import InputError
from fourfold.formats import read_model
from fourfold.processing.pixels import Pixels


def test_converts_image_shapes_to_model_shapes() -> None:
    pixels = {"x": Pixels(order="rgba"), "z": Pixels(order="bgr"), "other": Pixels()}
    own = {
        "x": InputSizes((1, 3, 3, 3)),
        "z": InputSizes((1, 3, 9, 9)),
        "other": InputSizes((1, 3, 3, 3)),
    }
    inputs = {"x": (2, 5, 7, 4), "z": (2, 5, 7, 3), "n": (4, 4, 4, 4)}
    results = {"x": (2, 5, 7, 3), "z": (2, 3, 5, 7), "n": (4, 4, 4, 4)}
    assert real_shapes(inputs, pixels, own) == results
    with pytest.raises(InputError, match=r"its pixels are rgba: \[batch, height, width, 4\]"):
        real_shapes({"x": (2, 5, 7, 3)}, pixels, own)


@pytest.mark.parametrize(
    ("left_open", "pixels", "result"),
    [
        ((-1, -1, -1, 3), Pixels(order="rgba"), (-1, -1, -1, 4)),
        ((-1, 3, 9, -1), Pixels(order="rgba"), (-1, 9, -1, 4)),
        ((), Pixels(order="rgba"), ()),
        ((-1, 3), None, (-1, 3)),
        ((), Pixels(fit="crop"), (1, -1, -1, 3)),
        ((-1, 3, 9, 9), Pixels(fit="crop", order="nv12"), (-1, -1, -1)),
        ((-1, 3, 9, 9), Pixels(size=(6, 10), order="nv21"), (-1, 9, 10)),
        ((-1, 3, -1, -1), Pixels(order="yuv420"), (-1, -1, -1)),
        ((), Pixels(size=(6, 10)), ()),
    ],
)  # fmt: skip
def test_open_sizes_of_frames(
    left_open: tuple[int, ...], pixels: Pixels | None, result: tuple[int, ...]
) -> None:
    assert frame_sizes(InputSizes((1, 3, 9, 9), left_open), pixels) == result


@pytest.mark.parametrize(
    ("value", "pixels", "result"),
    [
        ((1, 30, 40, 3), Pixels(fit="letterbox"), {}),
        ((5, 30, 40, 3), Pixels(fit="letterbox"), {"x": (5, 3, 9, 11)}),
        ((1, 30, 40), Pixels(order="nv12", into=(7, 5)), {"x": (1, 3, 7, 5)}),
        ((), Pixels(order="nv12", into=(7, 5)), {"x": (1, 3, 7, 5)}),
        ((1, 30, 40), Pixels(order="nv12"), {"x": (1, 3, 20, 40)}),
    ],
)
def test_frames_do_not_change_the_model_size(
    value: tuple[int, ...], pixels: Pixels, result: dict[str, tuple[int, ...]]
) -> None:
    shapes = {"x": value} if value else {}
    assert real_shapes(shapes, {"x": pixels}, {"x": InputSizes((1, 3, 9, 11))}) == result


@pytest.mark.parametrize(
    ("value", "pixels"),
    [((1, 31, 40), Pixels(order="nv12")), ((1, 8, 8, 3), Pixels(size=(8, 9)))],
)
def test_rejects_invalid_frame_shapes(value: tuple[int, ...], pixels: Pixels) -> None:
    with pytest.raises(InputError, match="input 'x' cannot have the shape"):
        real_shapes({"x": value}, {"x": pixels}, {"x": InputSizes((1, 3, 9, 11))})


def two_inputs(
    first: tuple[int, ...], second: tuple[int, ...], dtype: str = "float32", **grid: list[float]
) -> bytes:
    """Return a model that negates each input, the first one of any type."""
    return write(
        [
            Tensor("image", first, dtype, **grid),
            Tensor("other", second),
            Tensor("y", first, dtype, **grid),
            Tensor("z", second),
        ],
        [
            Operator("RELU", ["image"], ["y"]),
            Operator("NEG", ["other"], ["z"]),
        ],
        inputs=["image", "other"],
        outputs=["y", "z"],
    )


def test_pixels_without_a_name_apply_to_the_only_image() -> None:
    model = read_model(two_inputs((1, 5, 7, 3), (1, 5, 7, 1)))
    for order, name in (("rgba", "image"), ("gray", "other")):
        pixels = Pixels(order=order)
        assert find_pictures(model, pixels) == {name: pixels}
    assert find_pictures(model, None) == {}


@pytest.mark.parametrize(
    ("shapes", "value", "part"),
    [
        (((1, 5, 7, 3), (1, 9, 9, 3)), Pixels(), "2 inputs of the model could match"),
        (((1, 5, 7, 2), (3, 3)), Pixels(), "no input of the model could match"),
        (((1, 5, 7, 3), (3, 3)), {"imag": Pixels()}, "did you mean 'image'"),
        (((1, 5, 7, 3), (3, 3)), {"other": Pixels()}, r"it is f32\[3,3\], and a picture is"),
        (((1, 5, 7, 2), (3, 3)), {"image": Pixels()}, "it has 2 channels, and .* have 3"),
        (((1, 5, 7, 3), (3, 3)), {"image": Pixels(order="gray")}, "order='gray' for one channel"),
    ],
)
def test_rejects_inputs_that_cannot_be_images(
    shapes: tuple[tuple[int, ...], tuple[int, ...]], value: object, part: str
) -> None:
    with pytest.raises(InputError, match=part):
        find_pictures(read_model(two_inputs(*shapes)), value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("dtype", "fix"),
    [("uint8", "pass the bytes as they are"), ("int8", r"\(bytes - 128\).astype\(np.int8\)")],
)
def test_rejects_pixels_for_quantized_inputs(dtype: str, fix: str) -> None:
    content = two_inputs((1, 5, 7, 3), (3, 3), dtype, scale=[0.5], zero_point=[3])
    with pytest.raises(InputError, match=r"each for \(number - 3\) \* 0.5") as caught:
        find_pictures(read_model(content), {"image": Pixels()})
    assert re.search(fix, caught.value.fix)
