"""Pixels: which inputs of a model can come as the bytes of pictures, and in which shapes."""

from __future__ import annotations

import re

import pytest
from tflite_writer import Operator, Tensor, write

from fourfold.compile.pixel_inputs import byte_sizes, find_pictures, real_shapes
from fourfold.errors import InputError
from fourfold.formats import read_model
from fourfold.pixels import Pixels


def test_shapes_as_the_caller_and_as_the_model_sees_them() -> None:
    pictures = {"x": Pixels(order="rgba"), "z": Pixels(order="bgr"), "other": Pixels()}
    given = {"x": (2, 5, 7, 4), "z": (2, 5, 7, 3), "n": (4, 4, 4, 4)}
    found = {"x": (2, 5, 7, 3), "z": (2, 5, 7, 3), "n": (4, 4, 4, 4)}
    assert real_shapes(given, pictures) == found
    assert byte_sizes((-1, -1, -1, 3), pictures["x"]) == (-1, -1, -1, 4)
    assert byte_sizes((), pictures["x"]) == ()
    assert byte_sizes((-1, 3), None) == (-1, 3)
    with pytest.raises(InputError, match=r"its pixels are rgba: \[batch, height, width, 4\]"):
        real_shapes({"x": (2, 5, 7, 3)}, pictures)


def two_inputs(
    first: tuple[int, ...], second: tuple[int, ...], dtype: str = "float32", **grid: list[float]
) -> bytes:
    """Each input negated, the first one of any type."""
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


def test_pixels_alone_belong_to_the_only_picture() -> None:
    model = read_model(two_inputs((1, 5, 7, 3), (1, 5, 7, 1)))
    for order, name in (("rgba", "image"), ("gray", "other")):
        pixels = Pixels(order=order)
        assert find_pictures(model, pixels) == {name: pixels}
    assert find_pictures(model, None) == {}


@pytest.mark.parametrize(
    ("shapes", "given", "part"),
    [
        (((1, 5, 7, 3), (1, 9, 9, 3)), Pixels(), "takes 2 pictures to go with them"),
        (((1, 5, 7, 2), (3, 3)), Pixels(), "takes no picture to go with them"),
        (((1, 5, 7, 3), (3, 3)), {"imag": Pixels()}, "did you mean 'image'"),
        (((1, 5, 7, 3), (3, 3)), {"other": Pixels()}, r"it is f32\[3,3\], and a picture is"),
        (((1, 5, 7, 2), (3, 3)), {"image": Pixels()}, "it has 2 channels, and .* make 3"),
        (((1, 5, 7, 3), (3, 3)), {"image": Pixels(order="gray")}, "order='gray' for one channel"),
    ],
)
def test_what_cannot_come_as_pixels(
    shapes: tuple[tuple[int, ...], tuple[int, ...]], given: object, part: str
) -> None:
    with pytest.raises(InputError, match=part):
        find_pictures(read_model(two_inputs(*shapes)), given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("dtype", "fix"),
    [("uint8", "pass the bytes as they are"), ("int8", r"\(bytes - 128\).astype\(np.int8\)")],
)
def test_a_quantised_input_takes_bytes_already(dtype: str, fix: str) -> None:
    content = two_inputs((1, 5, 7, 3), (3, 3), dtype, scale=[0.5], zero_point=[3])
    with pytest.raises(InputError, match=r"each for \(number - 3\) \* 0.5") as caught:
        find_pictures(read_model(content), {"image": Pixels()})
    assert re.search(fix, caught.value.fix)
