"""Datasets are read from folders per class and from COCO annotations; damage has clear errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from fourfold.errors import InputError
from fourfold.tools.accuracy.classification import folder_numbers
from fourfold.tools.accuracy.dataset import read_dataset
from fourfold.vision.found import ClassScore


def write_picture(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 6), (200, 30, 30)).save(path)
    return path


def coco(**changes: Any) -> dict[str, Any]:
    content: dict[str, Any] = {
        "images": [{"id": 7, "file_name": "a.png"}, {"id": 9, "file_name": "b.png"}],
        "categories": [{"id": 3, "name": "cat"}],
        "annotations": [{"image_id": 7, "category_id": 3, "bbox": [1, 2, 3, 4], "iscrowd": 1}],
    }
    return {**content, **changes}


def write_coco(path: Path, **changes: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(coco(**changes)))
    return path


def test_folders_are_classes(tmp_path: Path) -> None:
    for name in ("cat/1.png", "cat/more/2.PNG", "dog/1.jpg", ".hidden/1.png"):
        write_picture(tmp_path / name)
    (tmp_path / "cat" / "notes.txt").write_text("no picture")
    (tmp_path / "classes.json").write_text('{"cat": 0}')
    dataset = read_dataset(tmp_path)
    assert [one.folder for one in dataset.pictures] == ["cat", "cat", "dog"]
    assert dataset.folders == ("cat", "dog")
    assert not dataset.has_boxes


def test_a_sample_is_random_but_repeatable(tmp_path: Path) -> None:
    for number in range(20):
        write_picture(tmp_path / f"class{number // 10}" / f"{number}.png")
    dataset = read_dataset(tmp_path)
    assert len({one.folder for one in dataset.sample(8, 0)}) == 2
    assert dataset.sample(8, 0) == dataset.sample(None, 0)[:8]
    assert dataset.sample(8, 0) != dataset.sample(8, 1)
    with pytest.raises(InputError, match="at least one"):
        dataset.sample(0, 0)


@pytest.mark.parametrize(
    ("annotations", "pictures", "images"),
    [
        ("set/instances.json", "set", None),
        ("set/instances.json", "set/images", None),
        ("annotations/instances_val2017.json", "val2017", None),
        ("set/instances.json", "elsewhere", "elsewhere"),
    ],
)
def test_coco_annotations_and_their_pictures(
    tmp_path: Path, annotations: str, pictures: str, images: str | None
) -> None:
    path = write_coco(tmp_path / annotations)
    first = write_picture(tmp_path / pictures / "a.png")
    folder = None if images is None else tmp_path / images
    dataset = read_dataset(path, folder)
    (one,) = dataset.pictures
    assert (one.path, dataset.categories) == (first, {3: "cat"})
    assert one.truth is not None
    np.testing.assert_array_equal(one.truth.boxes, [[1, 2, 3, 4]])
    assert (one.truth.categories.tolist(), one.truth.crowds.tolist()) == ([3], [True])
    assert dataset.notes == (f"1 of 2 annotated pictures are not in {first.parent}",)
    assert read_dataset(path.parent, folder).pictures[0].path == first


def test_pictures_without_objects_count(tmp_path: Path) -> None:
    path = write_coco(tmp_path / "instances.json")
    write_picture(tmp_path / "b.png")
    (one,) = read_dataset(path).pictures
    assert one.truth is not None
    assert len(one.truth.boxes) == 0


def test_wrong_datasets_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no dataset"):
        read_dataset(tmp_path / "missing")
    with pytest.raises(InputError, match="is not a labelled dataset"):
        read_dataset(tmp_path)
    write_picture(tmp_path / "loose.png")  # a picture without a label
    with pytest.raises(InputError, match="is not a labelled dataset"):
        read_dataset(tmp_path)
    write_picture(tmp_path / "cat" / "1.png")
    with pytest.raises(InputError, match="passed without annotations"):
        read_dataset(tmp_path, tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "cannot be read"),
        ("[]", "has no COCO annotations"),
        (json.dumps(coco(annotations=[{"image_id": 7}])), "has no COCO annotations"),
        (json.dumps(coco(categories=[])), "lacks categories"),
        (json.dumps(coco(categories=[{"id": 4, "name": "dog"}])), "lacks categories"),
        (json.dumps(coco()), "the pictures of .* are missing"),
    ],
)
def test_wrong_annotations_are_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "instances.json"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read_dataset(path)


def test_folders_have_labels_or_numbers() -> None:
    labels = ("tabby, tabby cat", "Great_Dane", "5", "tabby cat", "crane", "crane")
    classes = [ClassScore(number, label, 0.0) for number, label in enumerate(labels)]
    names = ["tabby", "great dane", "5", "4", "Tabby Cat", "0"]
    expected = {"tabby": 0, "great dane": 1, "5": 2, "4": 4, "Tabby Cat": 3, "0": 0}
    assert folder_numbers(names, classes) == expected
    with pytest.raises(InputError, match="names several classes"):
        folder_numbers(["crane"], classes)
    with pytest.raises(InputError, match="such as 'great dane'"):
        folder_numbers(["grat_dane"], classes)
    with pytest.raises(InputError, match="from 0 to 0"):
        folder_numbers(["cat"], [ClassScore(0, "", 0.0)])
