"""Caffe networks: a definition as text (.prototxt) and its weights (.caffemodel)."""

from __future__ import annotations

import os

from fourfold.formats.caffe.files import TEXT, WEIGHTS, find_files
from fourfold.formats.format import Format
from fourfold.formats.source import ModelSource


def matches(source: ModelSource) -> bool:
    """Match by extension: the content has no signature."""
    if source.is_folder:
        assert source.path is not None
        return any(name.lower().endswith((TEXT, WEIGHTS)) for name in os.listdir(source.path))
    return source.has_extension((TEXT, WEIGHTS))


def files(source: ModelSource) -> tuple[str, ...]:
    return find_files(source).paths


FORMAT = Format("Caffe", (TEXT, WEIGHTS), matches, f"{__name__}.reader", files=files)
