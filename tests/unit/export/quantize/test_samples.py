"""Samples come from arrays, files and folders; an error names those that do not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from float_networks import GraphDraft, small_classifier, write_tflite
from PIL import Image

from fourfold.errors import InputError
from fourfold.export.quantize.samples import read_samples
from fourfold.formats import Model, read_model
from fourfold.processing.pixels import Pixels

MODEL = read_model(write_tflite(small_classifier()))
ARRAYS = [np.full((1, 12, 12, 3), number, np.float32) for number in range(5)]


def arrays(given: Any, pixels: Pixels | None = None, model: Model = MODEL) -> list[np.ndarray]:
    (name,) = model.main.arguments
    return [sample[name] for sample in read_samples(given, model, pixels)]


@pytest.mark.parametrize(
    "given",
    [
        ARRAYS,
        [{"image": array} for array in ARRAYS],
        [[array] for array in ARRAYS],
        [array[0] for array in ARRAYS],
        np.concatenate(ARRAYS),
        np.stack(ARRAYS).astype(np.float64),
    ],
    ids=["arrays", "by name", "by position", "without a batch", "one array", "doubles"],
)
def test_arrays_are_samples(given: Any) -> None:
    found = arrays(given)
    assert np.array_equal(np.stack(found), np.stack(ARRAYS))
    assert found[0].dtype == np.float32


def test_a_generator_can_be_gone_through_again() -> None:
    samples = read_samples((array for array in ARRAYS), MODEL, None)
    assert [len(list(samples)) for _ in range(2)] == [5, 5]
    assert len(samples.first(2)) == 2


def test_files_of_arrays_are_samples(tmp_path: Path) -> None:
    np.save(tmp_path / "all.npy", np.concatenate(ARRAYS))
    np.savez(tmp_path / "named.npz", image=np.concatenate(ARRAYS))
    folder = tmp_path / "folder"
    folder.mkdir()
    for number, array in enumerate(ARRAYS):
        np.save(folder / f"{number}.npy", array)
    (folder / "notes.txt").write_text("not a sample")
    for path in (tmp_path / "all.npy", tmp_path / "named.npz", str(folder)):
        assert np.array_equal(np.stack(arrays(path)), np.stack(ARRAYS))


@pytest.mark.parametrize(
    ("pixels", "expected"),
    [
        (None, (1.0, 0.0, 0.2)),
        (Pixels(127.5, 127.5), (1.0, -1.0, -0.6)),
        (Pixels(0.0, 1.0, "bgr"), (255.0, 0.0, 51.0)),
    ],
)
def test_pictures_are_samples(
    tmp_path: Path, pixels: Pixels | None, expected: tuple[float, ...]
) -> None:
    for number in range(4):
        Image.new("RGB", (30, 20), (255, 0, 51)).save(tmp_path / f"{number}.png")
    found = arrays(tmp_path, pixels)
    assert len(found) == 4
    assert np.allclose(found[0], np.float32(expected), atol=1e-6)


def test_pictures_of_another_size_are_fitted(tmp_path: Path) -> None:
    for number in range(4):
        Image.new("RGB", (30, 10), (255, 0, 51)).save(tmp_path / f"{number}.png")
    found = arrays(tmp_path, Pixels(0.0, 255.0, "nv12", fit="letterbox", fill=(0, 0, 255)))
    assert found[0].shape == (1, 12, 12, 3)
    assert np.allclose(found[0][0, :4], (0, 0, 1))
    assert np.allclose(found[0][0, 4:8], (1, 0, 0.2), atol=1e-6)


def test_pictures_fit_inputs_with_channels_first(tmp_path: Path) -> None:
    draft = GraphDraft(x=(1, 3, 8, 6))
    draft.node("relu", "y", "x")
    for number in range(4):
        Image.new("RGB", (6, 8), (255, 0, 51)).save(tmp_path / f"{number}.png")
    found = arrays(tmp_path, model=read_model(write_tflite(draft.graph("y"))))
    assert found[0].shape == (1, 3, 8, 6)
    assert np.allclose(found[0][0, :, 0, 0], (1, 0, 0.2))


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (np.zeros((1, 9, 9, 3), np.float32), "wrong shape"),
        (np.full((1, 12, 12, 3), np.nan, np.float32), "NaN"),
        (np.zeros((1, 12, 12, 3), np.complex64), "wrong type"),
        ({"picture": ARRAYS[0]}, "no input 'image'"),
        ([ARRAYS[0], ARRAYS[0]], "2 arrays"),
    ],
)
def test_an_invalid_sample_is_refused_by_its_number(bad: Any, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        arrays([*ARRAYS, bad])
    assert "sample 5" in caught.value.what


def test_files_that_are_none_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.npy").write_bytes(b"nothing")
    np.savez(tmp_path / "odd.npz", image=np.concatenate(ARRAYS), other=np.zeros(3))
    for path in (tmp_path / "a.npy", tmp_path / "odd.npz", tmp_path / "absent.npy"):
        with pytest.raises(InputError):
            arrays(path)
    with pytest.raises(InputError, match="0 samples"):
        arrays(tmp_path / "..", None)
