"""FrameFit: the position of a frame in a model's picture, and boxes mapped back to the frame."""

from __future__ import annotations

import numpy as np
import pytest

from fourfold.errors import InputError
from fourfold.processing.pixels import FrameFit, Pixels
from fourfold.processing.pixels.frame_fit import fit_frame


def test_a_letterbox_is_that_of_yolo() -> None:
    found = Pixels(fit="letterbox").fit_frame((1080, 1920), (640, 640))
    assert found == FrameFit((0, 0, 1080, 1920), (360, 640), (140, 0), (640, 640))
    assert found.scale == (1 / 3, 1 / 3)
    assert found.bars
    # If the bars differ by a pixel, the top and left ones are thinner.
    assert fit_frame((100, 33), (64, 64), "letterbox").offset == (0, 21)
    assert fit_frame((1, 9999), (64, 64), "letterbox").size == (1, 64)


def test_the_middle_in_the_model_s_proportions() -> None:
    found = Pixels(fit="crop").fit_frame((1080, 1920), (224, 224))
    assert found == FrameFit((0, 420, 1080, 1080), (224, 224), (0, 0), (224, 224))
    assert fit_frame((100, 40), (30, 60), "crop", (10, 4, 80, 30)).box == (42, 4, 15, 30)
    assert not found.bars


def test_all_of_it() -> None:
    found = Pixels(size=(480, 640)).fit_frame((480, 640), (224, 224))
    assert found == FrameFit((0, 0, 480, 640), (224, 224), (0, 0), (224, 224))
    assert not found.is_identity
    assert fit_frame((5, 7), (5, 7), "letterbox").is_identity


@pytest.mark.parametrize("fit", ["stretch", "letterbox", "crop"])
@pytest.mark.parametrize("crop", [None, (11, 31, 401, 517)])
def test_there_and_back(fit: str, crop: tuple[int, int, int, int] | None) -> None:
    found = fit_frame((480, 640), (96, 113), fit, crop)
    x, y = np.float64([0, 17.5, 640]), np.float64([3, 480, 0])
    back = found.to_frame(*found.to_picture(x, y))
    np.testing.assert_allclose(back, (x, y))
    top, left, height, width = found.box
    corner = found.to_picture(np.float64(left + width), np.float64(top + height))
    ends = [a + b for a, b in zip(found.offset, found.size, strict=True)]
    np.testing.assert_allclose(corner, ends[::-1])


def test_boxes_go_back_to_the_frame() -> None:
    found = fit_frame((1080, 1920), (640, 640), "letterbox")
    box = np.float32([[0, 140, 640, 500], [320, 320, 330, 350]])
    frame = np.float32([[0, 0, 1920, 1080], [960, 540, 990, 630]])
    pixels = found.boxes_to_frame(box, order="ltrb", normalized=False)
    np.testing.assert_allclose(pixels, frame, atol=1e-3)
    turned = [1, 0, 3, 2]
    again = found.boxes_to_frame((box / 640)[:, turned])
    np.testing.assert_allclose(again, frame[:, turned], atol=1e-3)
    with pytest.raises(InputError, match="there is no box order 'xywh'"):
        found.boxes_to_frame(box, order="xywh")


def test_a_bright_spot_is_found_where_it_was() -> None:
    """Mapped coordinates and resized pictures agree on positions."""
    down, along = np.indices((90, 160)) + 0.5
    spot = 255 * np.exp(-((along - 97) ** 2 + (down - 43) ** 2) / 50)
    frame = np.repeat(spot.astype(np.uint8)[None, ..., None], 3, axis=-1)
    for fit in ("stretch", "letterbox", "crop"):
        pixels = Pixels(fit=fit, fill=0, resize="area")
        picture = pixels.real(frame, (1, 48, 48, 3))[0, :, :, 0]
        rows, columns = np.indices(picture.shape) + 0.5
        total = picture.sum()
        place = (picture * columns).sum() / total, (picture * rows).sum() / total
        x, y = pixels.fit_frame((90, 160), (48, 48)).to_frame(*np.float64(place))
        assert (float(x), float(y)) == pytest.approx((97, 43), abs=0.02)
