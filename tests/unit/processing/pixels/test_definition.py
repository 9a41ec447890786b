"""Pixels.real crops, resizes, places and colors frames as other libraries do."""

from __future__ import annotations

import numpy as np
import pytest

from fourfold.errors import InputError
from fourfold.processing.pixels import Pixels
from fourfold.processing.pixels.colors import MATRICES
from fourfold.processing.resampling import area_table


def noise(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).integers(0, 256, shape, np.uint8)


def resized(frame: np.ndarray, size: tuple[int, int], resize: str) -> np.ndarray:
    return Pixels(fit="stretch", resize=resize).real(frame[None], (1, *size, 3))[0]


@pytest.mark.parametrize(
    ("resize", "filter_name", "sizes"),
    [
        ("nearest", "NEAREST", ((24, 31), (96, 107))),
        ("bilinear", "BILINEAR", ((96, 107), (48, 200))),
        ("antialias", "BILINEAR", ((96, 107), (24, 31), (17, 200))),
        ("area", "BOX", ((24, 31), (16, 31))),
    ],
)
def test_as_pillow_has_it(
    resize: str, filter_name: str, sizes: tuple[tuple[int, int], ...]
) -> None:
    """Pillow rounds after each axis, and its box filter equals ours only if the sizes divide."""
    image = pytest.importorskip("PIL.Image")
    frame = noise(48, 62, 3)
    for height, width in sizes:
        how = image.Resampling[filter_name]
        wanted = np.asarray(image.fromarray(frame).resize((width, height), how), np.float32)
        apart = np.abs(resized(frame, (height, width), resize) - wanted)
        assert apart.max() <= (0 if resize == "nearest" else 1.001), (height, width)


def test_an_area_counts_parts_of_pixels() -> None:
    table = area_table(5, 2)
    assert table.indices.tolist() == [[0, 1, 2], [2, 3, 4]]
    np.testing.assert_allclose(table.weights, [[0.4, 0.4, 0.2], [0.2, 0.4, 0.4]], atol=1e-7)
    assert area_table(7, 7).indices.tolist() == [[n] for n in range(7)]
    for size, new_size in ((1080, 224), (1920, 641), (37, 113), (3, 1), (1, 5)):
        table = area_table(size, new_size)
        np.testing.assert_allclose(table.weights.sum(axis=1), 1, atol=2e-6)
        assert table.indices.min() >= 0
        assert table.indices.max() < size
        mean = table.weights.sum() * 0
        for tap in range(table.weights.shape[1]):
            mean += (table.weights[:, tap] * table.indices[:, tap]).sum()
        assert mean / new_size == pytest.approx((size - 1) / 2, abs=1e-3)


# (y, u, v), and the red, green and blue that the standards define for them.
COLORS = {
    "bt601": {
        (16, 128, 128): (0, 0, 0),
        (235, 128, 128): (255, 255, 255),
        (81, 90, 240): (255, 0, 0),
        (145, 54, 34): (0, 255, 0),
        (41, 240, 110): (0, 0, 255),
    },
    "bt601-full": {(76, 85, 255): (255, 0, 0), (255, 128, 128): (255, 255, 255)},
    "bt709": {
        (63, 102, 240): (255, 0, 0),
        (173, 42, 26): (0, 255, 0),
        (32, 240, 118): (0, 0, 255),
    },
    "bt709-full": {(54, 99, 255): (255, 0, 0), (18, 255, 116): (0, 0, 255)},
}


@pytest.mark.parametrize("matrix", MATRICES)
def test_colours_of_the_standards(matrix: str) -> None:
    for (y, u, v), rgb in COLORS[matrix].items():
        frame = np.uint8([[[y, y], [y, y], [u, v]]])
        found = Pixels(order="nv12", matrix=matrix).real(frame)
        np.testing.assert_allclose(found, np.broadcast_to(rgb, (1, 2, 2, 3)), atol=1.6)


def test_three_layouts_of_the_same_frame() -> None:
    y, u, v = noise(2, 6, 10), noise(2, 3, 5, seed=1), noise(2, 3, 5, seed=2)
    frames = {
        "nv12": np.stack([u, v], -1),
        "nv21": np.stack([v, u], -1),
        "yuv420": np.stack([u, v], 1),
    }
    found = [
        Pixels(order=order).real(np.concatenate([y, colors.reshape(2, 3, 10)], axis=1))
        for order, colors in frames.items()
    ]
    assert found[0].shape == (2, 6, 10, 3)
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])
    red = (int(y[0, 4, 7]) - 16) * 255 / 219 + 1.402 * 255 / 224 * (int(v[0, 2, 3]) - 128)
    assert found[0][0, 4, 7, 0] == pytest.approx(min(max(red, 0), 255), abs=1e-3)


def test_bars_have_the_colour_that_was_said() -> None:
    frame = noise(1, 10, 40, 4)
    pixels = Pixels((1, 2, 3), (2, 4, 8), "bgra", fit="letterbox", fill=(10, 20, 30))
    found = pixels.real(frame, (1, 20, 20, 3))
    bar = (np.float32([10, 20, 30]) - [1, 2, 3]) / [2, 4, 8]
    for rows in (slice(0, 7), slice(12, 20)):
        np.testing.assert_allclose(found[0, rows], np.broadcast_to(bar, found[0, rows].shape))
    inner = Pixels((1, 2, 3), (2, 4, 8), "bgra", fit="stretch").real(frame, (1, 5, 20, 3))
    np.testing.assert_allclose(found[:, 7:12], inner)


@pytest.mark.parametrize("fit", ["stretch", "letterbox", "crop"])
@pytest.mark.parametrize("resize", ["bilinear", "area"])
def test_a_crop_equals_slicing(fit: str, resize: str) -> None:
    frame = noise(1, 31, 43, 3)
    part = np.ascontiguousarray(frame[:, 3:26, 5:40])
    whole, cut = (Pixels(fit=fit, resize=resize, crop=crop) for crop in (None, (3, 5, 23, 35)))
    shape = (1, 11, 13, 3)
    assert np.array_equal(cut.real(frame, shape), whole.real(part, shape))


def test_channels_may_come_first() -> None:
    frame, pixels = noise(2, 31, 42, 3), Pixels((1, 2, 3), (4, 5, 6), fit="crop")
    last, first = pixels.real(frame, (2, 9, 7, 3)), pixels.real(frame, (2, 3, 9, 7))
    assert np.array_equal(np.moveaxis(last, -1, 1), first)
    assert first.flags.c_contiguous


def test_a_model_may_take_blue_first() -> None:
    frame = noise(1, 5, 7, 3)
    found = Pixels((1, 2, 3), 1, "rgb", model_order="bgr").real(frame)
    assert np.array_equal(found, frame[..., ::-1] - np.float32([1, 2, 3]))
    same = Pixels((1, 2, 3), 1, "bgr", model_order="bgr").real(frame)
    assert np.array_equal(same, frame - np.float32([1, 2, 3]))


@pytest.mark.parametrize(
    ("pixels", "shape", "model", "part"),
    [
        (Pixels(), (1, 5, 7, 4), None, r"must have the shape \[batch, height, width, 3\]"),
        (Pixels(order="nv12"), (1, 10, 8), None, r"\[batch, height \* 3 / 2, width\]"),
        (Pixels(fit="crop"), (1, 5, 7, 3), None, "the size of the model's picture is unknown"),
        (Pixels(), (1, 5, 7, 3), (1, 5, 8, 3), "no fit was specified"),
        (Pixels(crop=(2, 0, 4, 4)), (1, 5, 7, 3), (1, 5, 8, 3), "ends at row 6 and column 4"),
    ],
)
def test_frames_that_cannot_be_read(
    pixels: Pixels, shape: tuple[int, ...], model: tuple[int, ...] | None, part: str
) -> None:
    with pytest.raises(InputError, match=part):
        pixels.real(np.zeros(shape, np.uint8), model)
