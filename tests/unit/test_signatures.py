"""Options have names and types, so that editors complete them and mypy finds mistakes."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from pathlib import Path
from typing import get_args

import pytest
from mypy import api

import fourfold
from fourfold.config import PLACEMENTS, PRECISIONS, PlacementName, Precision
from fourfold.integrations.delegate.options import PREFERENCES, GpuOptions, Preference
from fourfold.litert import GpuDelegate

SOURCE = Path(fourfold.__file__).parents[1]
CODE = """
import fourfold
from fourfold.litert import GpuDelegate

with fourfold.Session("m.tflite", 0, "mixed", {"x": (1, 2)}, placement="gpu", strict=True) as good:
    shown: fourfold.Placement = good.placement
    rows = [row.reason for row in good.placement.fallbacks]

fourfold.Session("m.tflite", sritct=True)  # line 9
fourfold.Session("m.tflite", precision="fp8")
fourfold.Session("m.tflite", placement="moon")
fourfold.Session("m.tflite", max_partitions="two")
fourfold.Session("m.tflite", on_fallback=lambda row: print(row.place))
good.placement.sumary
GpuDelegate("m.tflite", inference_preference="fast")  # line 15
"""


@pytest.mark.parametrize("public", [fourfold.Session, GpuDelegate])
def test_every_option_is_a_typed_keyword(public: type) -> None:
    parameters = inspect.signature(public).parameters.values()
    kinds = {one.kind for one in parameters}
    assert kinds.isdisjoint({inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL})
    assert all(one.annotation not in (one.empty, "Any") for one in parameters)


def test_delegate_accepts_every_gpu_option() -> None:
    parameters = inspect.signature(GpuDelegate).parameters
    for item in fields(GpuOptions):
        assert parameters[item.name].default == item.default


def test_literal_types_match_accepted_names() -> None:
    assert get_args(Precision) == PRECISIONS
    assert get_args(PlacementName) == PLACEMENTS
    assert get_args(Preference) == tuple(PREFERENCES)


def test_mypy_finds_mistakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "caller.py").write_text(CODE)
    monkeypatch.setenv("MYPYPATH", str(SOURCE))
    options = ["--strict", "--follow-imports=silent", "--cache-dir", str(tmp_path / "cache")]
    report, errors, _ = api.run([*options, "--config-file=", str(tmp_path / "caller.py")])
    lines = {int(line) for line in re.findall(r"caller\.py:(\d+): error", report)}
    assert lines == set(range(9, 16)), report + errors
    assert 'Unexpected keyword argument "sritct"' in report
