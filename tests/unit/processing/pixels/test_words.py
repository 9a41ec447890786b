"""The text form of Pixels: `parse` reads what `str` writes, and errors name the mistake."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fourfold.errors import InputError
from fourfold.plan.tensor_binding import TensorBinding
from fourfold.processing.pixels import Pixels
from fourfold.types import TensorType

ALL = Pixels(
    (1.5, 2, 3), 4, "nv12", (1080, 1920), "letterbox", "area", (0, 2, 100, 200), (7, 8, 9),
    (320, 640), "bt709-full", "bgr",
)  # fmt: skip
WORDS = {
    "rgb, mean 0.0, std 1.0": Pixels(),
    "bgra, mean 1.0 2.0 3.0, std 0.5": Pixels((1, 2, 3), 0.5, "bgra"),
    "rgb, mean 0.0, std 1.0, fit crop": Pixels(fit="crop"),
    "rgb, mean 0.0, std 1.0, size 3 4, fit stretch": Pixels(size=(3, 4)),
    "nv12, mean 1.5 2.0 3.0, std 4.0, size 1080 1920, fit letterbox, resize area, crop 0 2 100 200"
    ", fill 7.0 8.0 9.0, into 320 640, matrix bt709-full, model_order bgr": ALL,
}


@pytest.mark.parametrize("words", WORDS)
def test_there_and_back(words: str) -> None:
    assert str(WORDS[words]) == words
    assert Pixels.parse(words) == WORDS[words]


def test_numbers_of_any_kind_are_the_same() -> None:
    given = Pixels(size=np.array([6, 8]), crop=[0, np.int64(1), 2, 3], fill=[5, 5, 5])  # type: ignore[arg-type]
    assert given == Pixels(size=(6, 8), crop=(0, 1, 2, 3), fill=5)
    assert hash(given) == hash(Pixels(size=(6, 8), crop=(0, 1, 2, 3), fill=5))


@pytest.mark.parametrize("pixels", [ALL, Pixels((1, 2, 3), 4)])
def test_files_keep_them(pixels: Pixels) -> None:
    binding = TensorBinding("x", 3, TensorType.parse("f32[1,9,9,3]"), None, pixels)
    record = binding.to_record()
    assert TensorBinding.from_record(record) == binding
    assert TensorBinding.from_record([*record[:-1], None]).pixels is None


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ({"order": "nv13"}, "did you mean 'nv21' or 'nv12'"),
        ({"fit": "letter"}, "did you mean 'letterbox'"),
        ({"resize": "cubic"}, "pixels have no resize 'cubic'"),
        ({"matrix": "bt2020"}, "it must be one of bt601, "),
        ({"model_order": "gray"}, "it must be one of rgb, bgr"),
        ({"size": (480,)}, r"pass \(height, width\) as integers"),
        ({"size": (480, 0)}, "the size of pixels is"),
        ({"size": 480}, "the size of pixels is 480"),
        ({"size": (480.0, 640.0)}, "as integers"),
        ({"crop": (0, 0, 5)}, r"pass \(top, left, height, width\)"),
        ({"crop": (-1, 0, 5, 5)}, "it must be in pixels"),
        ({"crop": (0, 0, 5, 5), "size": (4, 9)}, "is not inside a frame of 4x9"),
        ({"size": (5, 8), "order": "nv12"}, "pixels share their chroma"),
        ({"fill": (1, 2)}, "the fill of pixels is"),
        ({"into": (1, 2, 3)}, "the into of pixels is"),
    ],
)
def test_errors_name_the_mistake(arguments: dict[str, Any], part: str) -> None:
    with pytest.raises(InputError, match=part):
        Pixels(**arguments)
