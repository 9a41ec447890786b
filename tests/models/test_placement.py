"""Real models on the GPU, on the CPU and split between them agree with LiteRT in every run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from model_collection import TFLITE, needs_models

import fourfold
from fourfold.runtime.random_inputs import random_inputs

SPECTRUM = TFLITE / "yamnet_audio_classifier_with_metadata.tflite"
STATES = TFLITE / "okay_nabu.tflite"
pytestmark = [
    pytest.mark.needs_device,
    needs_models,
]


def open_litert(path: Path) -> Any:
    module = pytest.importorskip("ai_edge_litert.interpreter", reason="LiteRT is not installed")
    interpreter = module.Interpreter(str(path))
    interpreter.allocate_tensors()
    return interpreter


def run_litert(interpreter: Any, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    for detail, array in zip(interpreter.get_input_details(), inputs.values(), strict=True):
        interpreter.set_tensor(detail["index"], array)
    interpreter.invoke()
    return [interpreter.get_tensor(item["index"]) for item in interpreter.get_output_details()]


PLACEMENT_OPTIONS: dict[str, dict[str, Any]] = {
    "auto": {"placement": "auto"},
    "gpu": {"placement": "gpu"},
    "split": {"placement": "gpu", "quantized": False},
    "cpu": {"placement": "cpu"},
}


@pytest.mark.parametrize("variant", PLACEMENT_OPTIONS)
@pytest.mark.parametrize("path", [SPECTRUM, STATES], ids=lambda path: path.stem)
def test_model_agrees_with_litert_in_every_placement(path: Path, variant: str) -> None:
    interpreter = open_litert(path)
    with fourfold.Session(path, cache=None, **PLACEMENT_OPTIONS[variant]) as session:
        for seed in range(3):  # states between runs must agree, too
            inputs = random_inputs(session.inputs, seed)
            ours = session.run(inputs).values()
            for mine, theirs in zip(ours, run_litert(interpreter, inputs), strict=True):
                assert mine.dtype == theirs.dtype
                reach = float(np.ptp(theirs.astype(np.float64))) or 1.0
                assert np.abs(mine.astype(np.float64) - theirs).max() <= 0.01 * reach
        assert session.placement.whole == (variant == "gpu") or variant == "auto"
        if variant == "split" and path == SPECTRUM:
            assert 0 < session.placement.on_gpu < len(session.placement.rows)
