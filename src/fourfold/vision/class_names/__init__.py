"""Class names of public datasets, for models that have no labels of their own.

SOURCES.md in this folder lists where the names come from.
"""

from __future__ import annotations

from functools import cache
from pkgutil import get_data

IMAGENET, COCO, PASCAL_VOC, AUDIOSET = "ImageNet", "COCO", "Pascal VOC", "AudioSet"
_FILES = {IMAGENET: "imagenet", COCO: "coco", PASCAL_VOC: "pascal_voc", AUDIOSET: "audioset"}
BACKGROUND, UNUSED = "background", "n/a"  # COCO has numbers without a class


@cache
def dataset_names(dataset: str) -> tuple[str, ...]:
    """Return all class names of a dataset, by class number: with a background, and with the unused
    numbers of COCO.
    """
    content = get_data(__name__, f"{_FILES[dataset]}.txt") or b""
    return tuple(content.decode().splitlines())


def names_for_count(dataset: str, count: int) -> tuple[str, ...]:
    """Return the class names of a dataset for a model with `count` classes; () if it has another
    number of them. The background and unused numbers may be left out.
    """
    names = dataset_names(dataset)
    variants = (
        names,
        names[names[0] == BACKGROUND :],
        tuple(one for one in names if one != UNUSED),
    )
    return next((one for one in variants if len(one) == count), ())
