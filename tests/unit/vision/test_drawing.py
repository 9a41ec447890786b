"""Boxes, masks and names are drawn at their positions."""

from __future__ import annotations

import base64
import io
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fourfold.errors import InputError
from fourfold.vision import Answer, Box, ClassScore, KeyPoint, KeyPoints, MadePicture, Mask
from fourfold.vision.drawing import MAX_SHOWN_PIXELS, class_color

image_module = pytest.importorskip("PIL.Image", reason="Pillow draws")
SIZE = (400, 800)
PHOTOGRAPH = np.full((*SIZE, 3), 255, np.uint8)


def drawn(answer: Answer, photograph: np.ndarray = PHOTOGRAPH) -> np.ndarray:
    return np.asarray(answer.draw(photograph))


def has(pixels: np.ndarray, color: tuple[int, int, int]) -> np.ndarray:
    return np.asarray((pixels == np.array(color)).all(-1))


def test_boxes_have_their_sides_and_a_name() -> None:
    box = Box(3, "cat", 0.9, (0.25, 0.25, 0.75, 0.5))
    found = has(drawn(Answer(boxes=(box,))), class_color(3))
    rows, columns = np.nonzero(found[100:])
    assert (rows.min() + 100, rows.max() + 100) == (100, 300)
    assert (columns.min(), columns.max()) == (200, 400)
    assert not found[150:250, 210:390].any()  # inside the box
    assert found[80:100, 200:].any()  # background of the name, above the box
    at_the_top = has(drawn(Answer(boxes=(Box(3, "cat", 0.9, (0, 0, 1, 1)),))), class_color(3))
    assert at_the_top[4:12, 4:30].sum() > 100  # inside the box, since there is no space above it


def test_masks_cover_their_classes_and_not_the_background() -> None:
    classes = np.zeros((4, 4), np.int64)
    classes[:, 2:] = 5
    pixels = drawn(Answer(masks=(Mask(classes, corners=(0.0, 0.0, 1.0, 0.5)),)))
    assert (pixels[300, 50] == 255).all()
    assert (pixels[300, 500] == 255).all()
    mixed = 255 + (np.array(class_color(4)) - 255.0) * 0.55  # the background is not a class
    np.testing.assert_allclose(pixels[300, 300], mixed, atol=3)


def test_a_mask_has_the_color_of_its_box_which_alone_is_named() -> None:
    """Classes in the masks of detectors are numbered from one."""
    classes = np.full((4, 4), 6, np.int64)
    box = Box(5, "cat", 0.9, (0.5, 0.5, 0.75, 0.75))
    pixels = drawn(Answer(boxes=(box,), masks=(Mask(classes, ("", *"abcdef")),)))
    mixed = 255 + (np.array(class_color(5)) - 255.0) * 0.55
    np.testing.assert_allclose(pixels[350, 50], mixed, atol=3)
    np.testing.assert_allclose(pixels[10, 10], mixed, atol=3)  # no text in the corner


def test_names_do_not_hide_each_other() -> None:
    """Names of three boxes with the same corner are all visible."""
    boxes = [Box(n, "cat", 0.9, (0.25, 0.25, 0.75 + n / 20, 0.5 + n / 9)) for n in range(3)]
    pixels = drawn(Answer(boxes=tuple(boxes)))
    grounds = [has(pixels, class_color(n)) for n in range(3)]
    alone = has(drawn(Answer(boxes=(Box(0, "cat", 0.9, (0.5, 0.5, 0.5, 0.5)),))), class_color(0))
    assert all(ground.sum() > 0.9 * alone.sum() for ground in grounds)


def test_names_are_dark_on_bright_colors() -> None:
    inks = set()
    for number in range(12):
        pixels = drawn(Answer(boxes=(Box(number, "cat", 0.9, (0.5, 0.25, 0.75, 0.5)),)))
        inks.add(bool(has(pixels, (0, 0, 0)).any()))
    assert inks == {True, False}


def test_a_turned_box_has_its_own_sides_only() -> None:
    places = ((0.25, 0.5), (0.5, 0.75), (0.75, 0.5), (0.5, 0.25))
    points = tuple(KeyPoint(f"corner {n}", *place) for n, place in enumerate(places))
    box = Box(0, "ship", 0.9, (0.25, 0.25, 0.75, 0.75), points, turned=True)
    found = has(drawn(Answer(boxes=(box,))), class_color(0))
    assert found[195:205, 195:205].any()  # a corner, on the left
    assert found[145:155, 295:305].any()  # the middle of a side
    assert not found[290:310, 200:300].any()  # not a corner of the enclosing box


def test_visible_points_and_their_connections() -> None:
    points = (
        KeyPoint("a", 0.5, 0.25, 0.9),
        KeyPoint("b", 0.5, 0.75, 0.9),
        KeyPoint("c", 0.9, 0.9, 0.1),
    )
    found = KeyPoints("thing", points, ((0, 1), (1, 2)), least=0.5)
    lines = has(drawn(Answer(key_points=(found,))), class_color(0))
    assert lines[200, 210:590].all()
    assert not lines[320:].any()


def test_classes_are_written() -> None:
    pixels = drawn(Answer(classes=(ClassScore(1, "cat", 0.9), ClassScore(2, "dog", 0.1))))
    assert (pixels[:60, :200] < 255).any()
    assert (pixels[100:] == 255).all()


def test_small_photographs_are_enlarged() -> None:
    assert drawn(Answer(), np.zeros((50, 100, 3), np.uint8)).shape == (300, 600, 3)


def test_a_picture_that_was_made_is_the_drawing() -> None:
    made = np.random.default_rng(0).integers(0, 256, (6, 8, 3), np.uint8)
    np.testing.assert_array_equal(drawn(Answer(pictures=(MadePicture(made, "y"),))), made)


def test_without_a_photograph_nothing_is_drawn() -> None:
    with pytest.raises(InputError, match="no picture to draw on"):
        Answer().draw(None)


def test_error_without_pillow_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(InputError, match=r"pip install 'fourfold\[images\]'"):
        Answer().draw(PHOTOGRAPH)


def test_a_photograph_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "noise.png").write_bytes(b"noise")
    with pytest.raises(InputError, match="cannot be read as a picture"):
        Answer().draw(tmp_path / "noise.png")


def test_draws_on_its_own_photograph() -> None:
    answer = Answer(boxes=(Box(3, "cat", 0.9, (0.25, 0.25, 0.75, 0.5)),), photograph=PHOTOGRAPH)
    np.testing.assert_array_equal(np.asarray(answer.draw()), drawn(answer))
    assert "array" not in repr(answer)


def shown_picture(html: str) -> np.ndarray:
    """Return the pixels of the picture in an HTML text."""
    data = html.partition("base64,")[2].partition('"')[0]
    return np.asarray(image_module.open(io.BytesIO(base64.b64decode(data))))


def test_notebooks_show_the_drawing_and_a_table(tmp_path: Path) -> None:
    boxes = (Box(3, "<cat>", 0.9, (0.25, 0.25, 0.75, 0.5)),)
    answer = Answer(boxes=boxes, kinds=("boxes",), family="SSD", photograph=PHOTOGRAPH)
    html = answer._repr_html_()
    np.testing.assert_array_equal(shown_picture(html), drawn(answer))
    assert "<table>" in html
    assert "&lt;cat&gt;" in html
    assert "0.900" in html
    large = replace(answer, photograph=np.zeros((600, 3000, 3), np.uint8))
    assert shown_picture(large._repr_html_()).shape[1] == MAX_SHOWN_PIXELS
    missing = replace(answer, photograph=tmp_path / "deleted.png")
    assert missing._repr_html_().startswith("<p>SSD")


def test_notebooks_show_only_the_table_without_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = Answer(classes=(ClassScore(1, "dog", 0.5),), photograph=PHOTOGRAPH)
    assert "<img" in answer._repr_html_()
    monkeypatch.setitem(sys.modules, "PIL", None)
    assert "<img" not in answer._repr_html_()
    assert "dog" in answer._repr_html_()
    assert "<img" not in Answer(classes=answer.classes)._repr_html_()
