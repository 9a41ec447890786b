"""A newcomer's folder: a few models and a photograph, and a shell to type commands into."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from detector_networks import yolo_v5
from float_networks import GraphDraft, small_classifier, write_tflite
from PIL import Image

import fourfold
from fourfold.cli import main
from fourfold.ops.base.window import Padding
from fourfold.ops.conv2d import Conv2d

Shell = Callable[..., str]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working folder. `colors.tflite` classifies colors, `classifier.tflite` is a float
    network and `yolo.tflite` a detector. `photo.jpg` is red in the upper three quarters and blue
    below.
    """
    photo = Image.new("RGB", (320, 240), (40, 90, 200))
    photo.paste((215, 25, 30), (0, 0, 320, 180))
    photo.save(tmp_path / "photo.jpg", quality=95)
    (tmp_path / "colors.tflite").write_bytes(fourfold.sample("colors"))
    (tmp_path / "classifier.tflite").write_bytes(write_tflite(small_classifier()))
    (tmp_path / "yolo.tflite").write_bytes(yolo_v5())
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def shell(folder: Path) -> Shell:
    """Return a function that runs a command line, checks its exit code, and returns its output."""

    def type_in(line: str, ends: int = 0) -> str:
        program, *words = shlex.split(line)
        assert program == "fourfold"
        done = CliRunner().invoke(main, words)
        assert done.exit_code == ends, done.output
        return done.output

    return type_in


@pytest.fixture
def ask(shell: Shell, capfd: pytest.CaptureFixture[str]) -> Callable[..., dict[str, Any]]:
    """Return a function that runs a command line with --json and returns the parsed output."""

    def type_in(line: str, ends: int = 0) -> dict[str, Any]:
        text = shell(f"{line} --json", ends)
        found: dict[str, Any] = json.loads(text[text.index("{") :])
        return found

    return type_in


@pytest.fixture
def loud_model(folder: Path) -> str:
    """Return a network whose layer `loud` produces numbers that overflow in fp16."""
    draft = GraphDraft(image=(1, 192, 192, 8))

    def layer(name: str, x: str, gain: float) -> str:
        weights = draft.weights(f"{name}/weights", 16, 3, 3, draft.types[x].channels, gain=gain)
        attributes = Conv2d(padding=Padding(1, 1, 1, 1))
        total = draft.node("conv2d", f"{name}/sum", x, weights, None, attributes=attributes)
        return draft.node("relu", name, total)

    layer("result", layer("loud", layer("quiet", "image", 2.0), 1e5), 1e-5)
    (folder / "loud.tflite").write_bytes(write_tflite(draft.graph("result")))
    return "loud.tflite"
