"""benchmarks/verify_models.py: its verdicts on reports of verify."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from small_networks import small_onnx

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

import verify_models

REPORT = {
    "samples": {
        "random": {
            "outputs": [
                {"verdict": "agrees", "difference": {"largest": 0.5}},
                {"verdict": "kernel", "difference": {"largest": 0.25}},
                {"verdict": "half precision", "difference": {"largest": 0.125}},
                {"verdict": "rounded by LiteRT", "difference": {"largest": 1.0}},
            ]
        }
    }
}


@pytest.mark.parametrize(
    ("text", "said", "verdict"),
    [
        (json.dumps(REPORT), "", ("kernel", 0.25)),
        (json.dumps({"samples": {}}), "", ("a layer is wrong", None)),
        (json.dumps({"error": {"what": "no such device"}}), "", ("no such device", None)),
        ("", "Traceback\nKeyError: 3\n", ("KeyError: 3", None)),
        ("", "", ("no output", None)),
    ],
)
def test_reads_reports(text: str, said: str, verdict: tuple[str, float | None]) -> None:
    assert verify_models.read_report(text, said) == verdict


@pytest.mark.needs_device
def test_judges_models_in_processes(tmp_path: Path) -> None:
    """Covers a correct model, an invalid file, and a timeout."""
    model, broken = tmp_path / "small.onnx", tmp_path / "broken.onnx"
    model.write_bytes(small_onnx())
    broken.write_bytes(b"no model")
    device = "auto"
    assert verify_models.judge(model, "fp32", device, 600).is_right
    assert "broken.onnx" in str(verify_models.judge(broken, "fp32", device, 600))
    assert str(verify_models.judge(model, "fp32", device, 0.01)) == "too slow"
