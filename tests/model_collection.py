"""The collection of real models, for machines that have it next to the checkout."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"
MODELS = SHARED / "models"
TFLITE, ONNX = MODELS / "tflite", MODELS / "onnx"
needs_models = pytest.mark.skipif(
    not MODELS.is_dir(), reason="the collection of models is not here"
)


def or_skipped(values: Iterable[Any]) -> list[Any]:
    """Return parameters from the collection, or one that is skipped if the collection is absent."""
    skipped = pytest.mark.skip(reason="the collection of models is not here")
    return [*values] or [pytest.param(Path("missing"), marks=skipped, id="missing")]


def at_hand(path: Path) -> Path:
    """Return a file of the collection; skip the test if it is not available."""
    if not path.is_file():
        pytest.skip(f"{path.name} is not at hand")
    return path
