"""examples/stream.py prints for each frame what a plain run of the same session returns."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import CliRunner
from detector_networks import yolo_v5
from docs.blocks import ROOT

import fourfold
from fourfold import processing

SIZE, FRAMES = (72, 96), 5


def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("stream", ROOT / "examples" / "stream.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.needs_device
def test_stream_example_agrees_with_plain_runs(tmp_path: Path) -> None:
    model, stream = tmp_path / "yolo.tflite", example()
    model.write_bytes(yolo_v5())
    inputs = [str(model), "--frames", str(FRAMES), "--size", *map(str, SIZE), "--fractions"]
    done = CliRunner().invoke(stream.main, inputs, catch_exceptions=False)
    printed = re.findall(r"^frame (\d+): (\d+) boxes", done.output, re.MULTILINE)
    pixels = fourfold.Pixels(0, 255, "nv12", size=SIZE, fit="letterbox")
    boxes = processing.YoloBoxes(score=0.25, normalized=True)
    with fourfold.Session(model, pixels=pixels, postprocess=boxes) as session:
        outputs = [int(session.run(frame)["count"][0]) for frame in stream.camera(FRAMES, *SIZE)]
    assert [(int(number), int(count)) for number, count in printed] == list(enumerate(outputs))
    assert len(set(outputs)) > 1, "frames that differ give answers that differ"
