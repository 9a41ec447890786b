"""Labelled datasets: a folder of pictures for each class, or COCO annotations."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fourfold.errors import InputError
from fourfold.processing.pictures import EXTENSIONS

PathOption = str | os.PathLike[str]
LAYOUT = "a dataset is a folder with one folder of pictures per class, or a COCO annotation file"


class Truth(NamedTuple):
    """The annotated objects of a picture.

    Attributes:
        boxes: Left, top, width and height in pixels, [objects, 4].
        categories: The category id of each object.
        crowds: For each box whether it is a region with a crowd of objects.
    """

    boxes: np.ndarray
    categories: np.ndarray
    crowds: np.ndarray


class LabelledPicture(NamedTuple):
    """A picture, and what it shows: the name of its folder, or annotated objects."""

    path: Path
    folder: str = ""
    truth: Truth | None = None


@dataclass(frozen=True)
class Dataset:
    """Labelled pictures.

    Attributes:
        path: The folder, or the file with COCO annotations.
        pictures: The pictures.
        categories: Names of COCO's categories by id; empty if folders are the labels.
        notes: What was left out, and why.
    """

    path: Path
    pictures: tuple[LabelledPicture, ...]
    categories: Mapping[int, str]
    notes: tuple[str, ...] = ()

    @property
    def has_boxes(self) -> bool:
        """True if the pictures have annotated boxes. Otherwise each has one class."""
        return bool(self.categories)

    @property
    def folders(self) -> tuple[str, ...]:
        """Names of the folders of all classes."""
        return tuple(sorted({one.folder for one in self.pictures}))

    def sample(self, limit: int | None, seed: int) -> tuple[LabelledPicture, ...]:
        """Return at most `limit` pictures in random order, so that any number of the first ones
        represents the dataset.
        """
        if limit is not None and limit < 1:
            what, why = f"the limit is {limit} pictures", "accuracy is measured on at least one"
            raise InputError(what, why, "pass a positive limit=, or leave limit= out")
        order = np.random.default_rng(seed).permutation(len(self.pictures))[:limit]
        return tuple(self.pictures[int(place)] for place in order)


def read_dataset(dataset: PathOption, images: PathOption | None = None) -> Dataset:
    """Read a folder with one folder of pictures per class, or a file with COCO annotations.

    Args:
        dataset: The folder or the file. A folder may contain the annotation file, too.
        images: Folder with the pictures of COCO annotations; by default it is searched near them.
    """
    path = Path(dataset)
    if path.is_file():
        return _read_coco(path, images)
    if not path.is_dir():
        raise InputError(f"there is no dataset {path}", "no such file or folder", LAYOUT)
    by_folder = [
        LabelledPicture(one, folder.name)
        for folder in sorted(path.iterdir())
        if folder.is_dir() and not folder.name.startswith(".")
        for one in sorted(folder.rglob("*"))
        if one.suffix.lower() in EXTENSIONS and one.is_file()
    ]
    annotations = [one for one in sorted(path.glob("*.json")) if _is_coco(_load_json(one))]
    if len(annotations) == 1:
        return _read_coco(annotations[0], images)
    if not by_folder or annotations:
        why = "it has no folders with pictures, and not exactly one file with COCO annotations"
        raise InputError(f"{path} is not a labelled dataset", why, LAYOUT)
    if images is not None:
        what, why = (
            "a folder of images was passed without annotations",
            f"{path} has a folder per class",
        )
        raise InputError(what, why, "leave images=FOLDER out, or pass a COCO annotation file")
    return Dataset(path, tuple(by_folder), {})


def _read_coco(path: Path, images: PathOption | None) -> Dataset:
    content = _load_json(path)
    try:
        categories = {int(one["id"]): str(one["name"]) for one in content["categories"]}
        names = {int(one["id"]): str(one["file_name"]) for one in content["images"]}
        truths = _truths(content["annotations"])
    except (KeyError, TypeError, ValueError) as error:
        why = f"an entry is missing or has the wrong type: {error}"
        fix = "pass instances with images, annotations (image_id, category_id, bbox) and categories"
        raise InputError(f"{path} has no COCO annotations", why, fix) from error
    unknown = {int(one) for truth in truths.values() for one in truth.categories} - {*categories}
    if not categories or unknown:
        why = f"annotations have categories {sorted(unknown)}" if unknown else "it lists none"
        raise InputError(f"{path} lacks categories", why, "list all categories in the file")
    folder = _images_folder(path, images, names)
    pictures = tuple(
        LabelledPicture(folder / name, truth=truths.get(number, _NOTHING))
        for number, name in names.items()
        if (folder / name).is_file()
    )
    missing = len(names) - len(pictures)
    note = f"{missing} of {len(names)} annotated pictures are not in {folder}"
    return Dataset(path, pictures, categories, (note,) if missing else ())


_NOTHING = Truth(np.zeros((0, 4)), np.zeros(0, int), np.zeros(0, bool))


def _load_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        what = f"the annotations in {path} cannot be read"
        raise InputError(what, str(error), LAYOUT) from error


def _is_coco(content: Any) -> bool:
    return isinstance(content, dict) and {"annotations", "categories", "images"} <= content.keys()


def _truths(annotations: Sequence[Mapping[str, Any]]) -> dict[int, Truth]:
    """Return the annotated objects by the id of their picture."""
    objects = defaultdict(list)
    for one in annotations:
        left, top, width, height = map(float, one["bbox"])
        crowd = bool(one.get("iscrowd", 0))
        box = (left, top, width, height)
        objects[int(one["image_id"])].append((box, int(one["category_id"]), crowd))
    truths = {}
    for number, rows in objects.items():
        boxes, categories, crowds = zip(*rows, strict=True)
        truths[number] = Truth(np.array(boxes), np.array(categories), np.array(crowds))
    return truths


def _images_folder(path: Path, images: PathOption | None, names: Mapping[int, str]) -> Path:
    """Return the folder with the pictures: the caller's, that of the annotations, `images` in it,
    or the one that COCO's own layout has for this file.
    """
    if images is not None:
        folders = [Path(images)]
    else:
        split = path.stem.rpartition("_")[2]  # annotations/instances_val2017.json
        folders = [path.parent, path.parent / "images", path.parent.parent / split]
    for folder in folders:
        if any((folder / name).is_file() for name in names.values()):
            return folder
    what, why = (
        f"the pictures of {path} are missing",
        f"none is in {' or '.join(map(str, folders))}",
    )
    raise InputError(what, why, "pass the folder that contains them: images=FOLDER")
