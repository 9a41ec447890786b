"""Photographs become model inputs, and answers are mapped back to the photograph."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from described_models import described, tensor

from fourfold.errors import InputError
from fourfold.graph.metadata import Normalization, TensorMetadata
from fourfold.processing.pictures import picture_bytes
from fourfold.vision import ask, find_picture_input
from fourfold.vision.meaning import GUESSED, DescribedModel
from fourfold.vision.preprocessing import FROM_METADATA

MOVENET = {"y": (1, 1, 17, 3)}


def port_of(model: DescribedModel) -> Any:
    return find_picture_input(model)


def test_the_range_of_pixels_comes_from_metadata() -> None:
    said = TensorMetadata(content="image", normalization=Normalization((100.0,), (50.0,)))
    model = described({"y": (1, 4)})._replace(inputs=(tensor("x", (1, 32, 32, 3), said=said),))
    port = port_of(model)
    assert port.told_by == FROM_METADATA
    assert str(port) == "pixels from -2 to 3.1, as the model's metadata say"
    array = port.array(np.full((32, 32, 3), 200, np.uint8))
    assert (array.shape, array.dtype, array[0, 3, 4, 0]) == ((1, 32, 32, 3), np.float32, 2.0)


def test_or_from_the_family_or_is_a_guess() -> None:
    face = described({"r": (1, 896, 16), "c": (1, 896, 1)}, (1, 128, 128, 3))
    assert str(port_of(face)).startswith("pixels from -1 to 1 in a letterbox, as is usual for")
    named = described({"MobilenetV1/Predictions/Reshape_1": (1, 1001)})
    assert str(port_of(named)) == "pixels from -1 to 1, as is usual for MobileNet"
    plain = port_of(described({"y": (1, 4)}))
    assert (plain.told_by, str(plain)) == (GUESSED, f"pixels from 0 to 1, {GUESSED}")


def test_quantised_models_take_bytes() -> None:
    for dtype, wanted in (("u1", 200), ("i1", 72)):
        port = port_of(described({"y": (1, 4)}, dtype=dtype))
        array = port.array(np.full((10, 20, 3), 200, np.uint8))
        assert (array.dtype, array.shape, array[0, 1, 2, 0]) == (dtype, (1, 64, 64, 3), wanted)
        assert "as bytes" in str(port)


def test_channels_first_and_gray() -> None:
    port = port_of(described({"y": (1, 4)}, (1, 1, 32, 48)))
    array = port.array(picture_bytes(np.full((5, 5, 3), 51, np.uint8), port.channels))
    assert (array.shape, array[0, 0, 3, 4]) == ((1, 1, 32, 48), pytest.approx(0.2))


def test_other_inputs_are_not_pictures() -> None:
    for shape in ((1, 49, 10, 1), (1, 640), (2, 64, 64, 3), (1, 64, 64, 7)):
        assert port_of(described({"y": (1, 4)}, shape)) is None


def session(model: DescribedModel, found: dict[str, np.ndarray]) -> Any:
    """A session with everything that `ask` needs; `given` is the input of its last run."""
    given: dict[str, np.ndarray] = {}

    def run(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        given.update(inputs)
        return found

    return SimpleNamespace(**model._asdict(), run=run, given=given)


def test_points_come_back_from_a_letterbox() -> None:
    rows = np.zeros((1, 1, 17, 3), np.float32)
    rows[0, 0, 0] = 0.5, 0.75, 0.9
    fake = session(described(MOVENET, (1, 192, 192, 3), dtype="u1"), {"y": rows})
    photograph = np.full((100, 200, 3), 255, np.uint8)
    answer = ask(fake, photograph)
    nose = answer.key_points[0].points[0]
    assert (nose.y, nose.x) == pytest.approx((0.5, 0.75))
    array = fake.given["image"]
    assert (array[0, 40, 5, 0], array[0, 60, 5, 0]) == (0, 255)  # bars above and below
    upper = np.zeros_like(rows)
    upper[0, 0, 0] = 0.25, 0.0, 0.9  # first row of the photograph
    fake = session(described(MOVENET, (1, 192, 192, 3), dtype="u1"), {"y": upper})
    nose = ask(fake, photograph).key_points[0].points[0]
    assert (nose.y, nose.x) == pytest.approx((0.0, 0.0))
    assert answer.size == (100, 200)


def test_several_photographs_give_several_answers(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    runs: list[np.ndarray] = []

    def run(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        runs.append(inputs["image"])
        return {"y": np.eye(4, dtype=np.float32)[len(runs) - 1 : len(runs)]}

    fake: Any = SimpleNamespace(**described({"y": (1, 4)})._asdict(), run=run)
    pixels = np.full((7, 9, 3), 255, np.uint8)
    paths = [tmp_path / "black.png", tmp_path / "white.png"]
    for path, value in zip(paths, (0, 255), strict=True):
        image.fromarray(np.full((20, 30, 3), value, np.uint8)).save(path)
    answers = ask(fake, [paths[0], str(paths[1]), pixels], top=1)
    assert [one.classes[0].number for one in answers] == [0, 1, 2]
    assert [one.size for one in answers] == [(20, 30), (20, 30), (7, 9)]
    assert [float(one.mean()) for one in runs] == [0, 1, 1]
    assert [one.photograph for one in answers[:2]] == [paths[0], str(paths[1])]
    assert answers[2].photograph is pixels
    assert ask(fake, (paths[0],), top=1)[0].classes[0].number == 3
    assert ask(fake, []) == []


def test_masks_lose_the_bars() -> None:
    shapes = {"y": (1, 84, 64), "p": (1, 32, 64, 64)}
    from_cells = np.zeros((1, 39, 1344), np.float32)
    from_cells[0, :4, 3] = 128, 128, 256, 128
    from_cells[0, 5, 3], from_cells[0, 7, 3] = 0.9, 1.0
    planes = np.full((1, 32, 64, 64), 5.0, np.float32)
    shapes = {"y": from_cells.shape, "p": planes.shape}
    fake = session(described(shapes, (1, 3, 256, 256)), {"y": from_cells, "p": planes})
    answer = ask(fake, np.zeros((60, 120, 3), np.uint8))
    (mask,) = answer.masks
    assert mask.classes.shape == (128, 256)
    assert (mask.classes == 2).all()
    assert answer.boxes[0].corners == pytest.approx((0, 0, 1, 1))


def test_a_session_without_a_picture_is_refused() -> None:
    fake = session(described({"y": (1, 4)}, (1, 640)), {})
    with pytest.raises(InputError, match="does not take a photograph"):
        ask(fake, np.zeros((5, 5, 3), np.uint8))


@pytest.mark.parametrize("given", [np.zeros((5, 5, 3)), np.zeros((5, 5, 2), np.uint8), 7])
def test_invalid_photographs_are_refused(given: object) -> None:
    with pytest.raises(InputError, match="is no photograph"):
        picture_bytes(given)


def test_photographs_of_all_kinds(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    pixels = np.random.default_rng(0).integers(0, 256, (7, 9, 3), np.uint8)
    image.fromarray(pixels).save(tmp_path / "p.png")
    for given in (str(tmp_path / "p.png"), tmp_path / "p.png", image.fromarray(pixels), pixels):
        np.testing.assert_array_equal(picture_bytes(given), pixels)
    gray = picture_bytes(pixels, 1)
    np.testing.assert_allclose(gray, picture_bytes(image.fromarray(pixels), 1), atol=1)
