"""Every WGSL module of whole models passes naga's validation, run by wgpu."""

from __future__ import annotations

import pytest
from model_collection import TFLITE, needs_models, or_skipped
from wgsl_on_wgpu import LEAST, find_device, modules

from fourfold.codegen.context import KernelOptions
from fourfold.compiler.lower import make_plan
from fourfold.compiler.rewrite import rewrite
from fourfold.formats import read_model

QUICK = ("kws_ref_model", "face_detection_short_range", "torchaudio_conformer")
pytestmark = [
    pytest.mark.skipif(find_device() is None, reason="no wgpu, or no Vulkan for it"),
    needs_models,
]


def names() -> list[object]:
    """Return all models; these are always checked, the others only in slow tests."""
    every = sorted(path.stem for path in TFLITE.glob("*.tflite"))
    return [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in every]


@pytest.mark.parametrize("precision", ["fp32", "mixed"])
@pytest.mark.parametrize("name", or_skipped(names()))
def test_modules_are_valid(name: str, precision: str) -> None:
    graph = rewrite(read_model(str(TFLITE / f"{name}.tflite")).main)
    plan = make_plan(graph, LEAST, KernelOptions(precision))
    assert plan.launches
    for text, marks in modules(plan).values():
        assert len(marks) <= 8
        find_device().create_shader_module(code=text)
