"""Check: advice by name, in text and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from convolution_network import network
from runtimes import needs_litert
from stateful_models import stream

from fourfold.backends.null import NULL_GPU
from fourfold.cli import main
from fourfold.formats.tflite import walk
from fourfold.formats.tflite.convert import rules
from fourfold.options import CompileOptions
from fourfold.tools.report.check import check_model


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "network.tflite"
    path.write_bytes(network())
    return path


def test_advice_names_nodes_and_says_what_to_do() -> None:
    report = check_model(network(), "it", NULL_GPU, CompileOptions())
    found = {(item.kind, item.nodes): item.text for item in report.advice}
    assert "9x9 filter; 4 of 3x3" in found["filter", ("first",)]
    assert "33 channels cost as much as 36" in found["channels", ("second",)]
    assert "3 channels" in found["input", ("x",)]
    assert "transpose costs a kernel" in found["moves", ("y",)]
    assert "sizes [-1, 32, 32, 3] are open" in found["sizes", ("x",)]
    assert report.placement.whole


@needs_litert
def test_the_cause_of_a_split_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {name: rule for name, rule in rules().items() if name != "TANH"}
    monkeypatch.setattr(walk, "rules", lambda: known)
    report = check_model(network(), "it", NULL_GPU, CompileOptions())
    (split,) = [item for item in report.advice if item.kind == "split"]
    assert split.nodes == ("t",)
    assert "this operator is not supported" in split.text


def test_a_model_with_variables_is_checked_as_a_whole() -> None:
    assert check_model(stream(), "it", NULL_GPU, CompileOptions()).placement.whole


def test_check_prints_and_gives_json(model: Path) -> None:
    shown = CliRunner().invoke(main, ["check", str(model), "--device", "null"])
    assert shown.exit_code == 0, shown.output
    assert "network.tflite: all 4 operators run on null" in shown.output
    assert "transpose costs a kernel" in shown.output
    told = CliRunner().invoke(main, ["check", str(model), "--device", "null", "--json"])
    data = json.loads(told.output)
    assert data["placement"]["on_gpu"] == 4
    assert {item["kind"] for item in data["advice"]} >= {"filter", "channels", "moves"}
