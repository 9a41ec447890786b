"""docs/add-an-op.md, followed literally: its files are written, found, and run on the device."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from docs.blocks import ROOT, write_files
from ops.test_ops import check
from tflite_writer import Operator, Tensor, write

import fourfold
from fourfold import ops
from fourfold.codegen.context import KernelOptions
from fourfold.device import DeviceInfo
from fourfold.formats.tflite import convert
from fourfold.formats.tflite.operation import RULES
from fourfold.ops.base import registry
from fourfold.session import explain_stage

PAGE = ROOT / "docs" / "add-an-op.md"
PACKAGES = (ops, convert)


def clear_caches() -> None:
    registry.cache_clear()
    convert.rules.cache_clear()


@pytest.fixture
def overlay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Install the page's files in folders that the package searches besides its own."""
    convert.rules()  # importing the package's files fills this table through a decorator
    original_rules = dict(RULES)
    files = write_files(PAGE, tmp_path)
    added = [".".join(file.with_suffix("").parts[1:]) for file in files]
    for package in PACKAGES:
        folder = tmp_path / "src" / Path(*package.__name__.split("."))
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(folder)])
    clear_caches()
    yield added
    for name in added:
        package, _, attribute = name.rpartition(".")
        sys.modules.pop(name, None)
        vars(sys.modules[package]).pop(attribute, None)
    RULES.clear()
    RULES.update(original_rules)
    monkeypatch.undo()
    clear_caches()


def model() -> bytes:
    """Return a convolution followed by the custom operator."""
    filters = np.random.default_rng(5).standard_normal((4, 1, 1, 3)).astype(np.float32)
    tensors = [
        Tensor("x", (1, 8, 8, 3)),
        Tensor("filters", filters.shape, data=filters),
        Tensor("t", (1, 8, 8, 4)),
        Tensor("y", (1, 8, 8, 4)),
    ]
    strides = {"Padding": 1, "StrideW": 1, "StrideH": 1}
    operators = [
        Operator("CONV_2D", ["x", "filters", None], ["t"], "Conv2DOptions", strides),
        Operator("CUSTOM", ["t"], ["y"], custom_code="Softplus"),
    ]
    return write(tensors, operators, ["x"], ["y"])


def test_page_adds_one_file_for_the_op_and_one_for_the_format(overlay: list[str]) -> None:
    assert overlay == ["fourfold.ops.softplus", "fourfold.formats.tflite.convert.softplus"]


@pytest.mark.parametrize("precision", ["fp32", "mixed"])
def test_cases_of_the_new_op_pass(overlay: list[str], precision: str, device: DeviceInfo) -> None:
    check(registry()["softplus"], device, KernelOptions(precision), like=device)


def test_model_with_the_new_op_runs(overlay: list[str], device: DeviceInfo) -> None:
    lines = explain_stage(model(), "rewritten").splitlines()
    assert len(lines) == 3
    assert lines[1].endswith("|> softplus: f32[1,8,8,4]")
    x = np.random.default_rng(6).uniform(-9, 9, (1, 8, 8, 3)).astype(np.float32)
    with fourfold.Session(model(), device=device) as session:
        y = session.run(x)["y"]
    filters = np.random.default_rng(5).standard_normal((4, 1, 1, 3)).astype(np.float32)
    np.testing.assert_allclose(y, np.logaddexp(x @ filters[:, 0, 0].T, 0), rtol=1e-5, atol=1e-5)


def test_other_custom_operators_are_rejected(overlay: list[str]) -> None:
    tensors = [Tensor("x", (1, 4)), Tensor("y", (1, 4))]
    content = write(tensors, [Operator("CUSTOM", ["x"], ["y"], custom_code="Other")], ["x"], ["y"])
    with pytest.raises(fourfold.UnsupportedError, match="CUSTOM Other"):
        explain_stage(content, "kernels")


def test_op_is_removed_after_the_test() -> None:
    assert "softplus" not in registry()
    with pytest.raises(fourfold.UnsupportedError, match="CUSTOM Softplus"):
        explain_stage(model(), "kernels")
