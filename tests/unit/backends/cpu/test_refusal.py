"""Errors of engines for parts that they cannot run."""

from __future__ import annotations

import pytest

from fourfold.backends.cpu.litert.part import LitertPart
from fourfold.backends.cpu.onnxruntime.part import OnnxPart
from fourfold.backends.cpu.registry import find_engine
from fourfold.backends.cpu.runtimes import first_line, refused_part
from fourfold.errors import UnsupportedError
from fourfold.plan.tensor_binding import TensorBinding

OUTPUTS = (TensorBinding("scores", "scores", None), TensorBinding("boxes", "boxes", None))


def test_takes_the_first_line_of_an_error() -> None:
    assert first_line(ValueError("\n  no such op\n  at node 7")) == "no such op"
    assert first_line(ValueError()) == "ValueError"


def test_part_is_named_by_its_first_output() -> None:
    error = refused_part("Abacus", OUTPUTS, "it has too few beads")
    assert error.what == "Abacus cannot run its part of the model"
    assert [str(one) for one in error.refusals] == ["output 'scores': it has too few beads"]
    assert "fourfold check" in error.fix
    entire = refused_part("Abacus", (), "it has too few beads")
    assert [str(one) for one in entire.refusals] == ["part 'all operators': it has too few beads"]


def test_litert_rejects_a_damaged_part() -> None:
    if not find_engine("litert").installed():
        pytest.skip("LiteRT is not installed")
    with pytest.raises(UnsupportedError, match="LiteRT cannot run its part") as caught:
        LitertPart(b"no model" * 8, (), OUTPUTS)
    assert caught.value.refusals[0].node == "scores"


def test_onnx_runtime_rejects_a_damaged_part() -> None:
    if not find_engine("onnxruntime").installed():
        pytest.skip("ONNX Runtime is not installed")
    with pytest.raises(UnsupportedError, match="ONNX Runtime cannot run its part") as caught:
        OnnxPart(b"no model" * 8, (), OUTPUTS)
    assert caught.value.refusals[0].node == "scores"
