"""Check and verify: advice by name, differences told apart, in text and as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tflite_writer as writer
from click.testing import CliRunner
from stateful_models import sequence_lstm, stream

from fourfold.cli import main
from fourfold.cpu import litert
from fourfold.formats.tflite import operation, walk
from fourfold.formats.tflite.convert import rules
from fourfold.formats.tflite.rule import Rule
from fourfold.lower import specialise, storage
from fourfold.options import CompileOptions
from fourfold.players import find_device
from fourfold.players.null import NULL_GPU
from fourfold.report.check import check_model
from fourfold.report.compare import deviation
from fourfold.report.verify import (
    AGREES,
    CARRIED,
    FLAT,
    HALF,
    MEANING,
    ROUNDED,
    compare_layers,
    compare_outputs,
)

needs_litert = pytest.mark.skipif(not litert.ENGINE.installed(), reason="LiteRT is not installed")
CONV = "Conv2DOptions"
STRIDES = {"StrideH": 1, "StrideW": 1}


def conv(name: str, source: str, size: int, channels: tuple[int, int]) -> tuple[Any, ...]:
    generator = np.random.default_rng(len(name))
    shape = (channels[1], size, size, channels[0])
    weights = generator.normal(0, 0.1, shape).astype(np.float32)
    bias = np.zeros(channels[1], np.float32)
    return (
        [
            writer.Tensor(f"{name}/w", shape, data=weights),
            writer.Tensor(f"{name}/b", bias.shape, data=bias),
            writer.Tensor(name, (1, 32, 32, channels[1])),
        ],
        writer.Operator("CONV_2D", [source, f"{name}/w", f"{name}/b"], [name], CONV, STRIDES),
    )


def network() -> bytes:
    """Three channels in, a 9x9 filter, 33 channels, a tanh, and a transpose at the end."""
    first, wide = conv("first", "x", 9, (3, 32))
    second, odd = conv("second", "first", 3, (32, 33))
    order = writer.constant("order", [0, 2, 1, 3])
    tensors = [
        writer.Tensor("x", (1, 32, 32, 3), signature=(-1, 32, 32, 3)),
        *first,
        *second,
        writer.Tensor("t", (1, 32, 32, 33)),
        order,
        writer.Tensor("y", (1, 32, 32, 33)),
    ]
    operators = [
        wide,
        odd,
        writer.Operator("TANH", ["second"], ["t"]),
        writer.Operator("TRANSPOSE", ["t", "order"], ["y"], "TransposeOptions"),
    ]
    return writer.write(tensors, operators, ["x"], ["y"])


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
def test_what_causes_a_split_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {name: rule for name, rule in rules().items() if name != "TANH"}
    monkeypatch.setattr(walk, "rules", lambda: known)
    report = check_model(network(), "it", NULL_GPU, CompileOptions())
    (split,) = [item for item in report.advice if item.kind == "split"]
    assert split.nodes == ("t",)
    assert "this op is not known yet" in split.text


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


def test_differences_are_relative_to_the_range() -> None:
    expected = np.array([0.0, 10.0])
    assert deviation(np.array([0.0, 9.0]), expected).largest == pytest.approx(0.1)
    broken = deviation(np.array([np.nan, np.inf]), expected)
    assert (broken.nan, broken.infinite, broken.broken) == (1, 1, True)
    assert deviation(np.zeros(3), expected).broken
    assert deviation(np.zeros((0,)), np.zeros((0,))).largest == 0
    assert deviation(np.zeros(2), np.array([0, 7e4])).beyond_half == 1


def test_an_output_of_few_steps_says_little() -> None:
    flat, wide = np.array([-128, -127], np.int8), np.array([-128, 127], np.int8)
    (told,) = compare_outputs([flat], [flat], ["y"], "fp32")
    assert (told.verdict, told.agrees) == (FLAT, True)
    assert compare_outputs([wide], [wide], ["y"], "fp32")[0].verdict == AGREES
    assert not compare_outputs([wide - 9], [wide], ["y"], "fp32")[0].agrees


def inputs(scale: float = 1.0) -> list[np.ndarray]:
    return [np.random.default_rng(0).normal(0, scale, (1, 32, 32, 3)).astype(np.float32)]


@pytest.mark.needs_device
@needs_litert
def test_layers_agree() -> None:
    layers = compare_layers(network(), find_device(), CompileOptions(), inputs())
    assert [layer.name for layer in layers] == ["first", "t", "y"]
    assert {layer.verdict for layer in layers} == {AGREES}


@pytest.mark.needs_device
@needs_litert
def test_lost_precision_is_told_from_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "SMALL_VALUES", 0)  # else so small a model stays in floats
    monkeypatch.setattr(specialise, "SMALL_ARENA", 0)
    layers = compare_layers(network(), find_device(), CompileOptions("mixed"), inputs(1e5))
    wrong = [layer for layer in layers if not layer.agrees]
    assert wrong
    assert wrong[0].verdict in (HALF, "overflow in half precision")


@pytest.mark.needs_device
@needs_litert
def test_what_litert_rounds_is_no_fault() -> None:
    """Float values beside integer weights: LiteRT rounds the values before it multiplies them."""
    generator = np.random.default_rng(5)
    whole = generator.integers(-127, 128, (11, 37)).astype(np.int8)
    model = writer.write(
        [
            writer.Tensor("x", (3, 37)),
            writer.Tensor("w", whole.shape, "int8", data=whole, scale=[0.01], zero_point=[0]),
            writer.Tensor("y", (3, 11)),
        ],
        [writer.Operator("FULLY_CONNECTED", ["x", "w", None], ["y"], "FullyConnectedOptions")],
        ["x"],
        ["y"],
    )
    x = generator.normal(0, 1, (3, 37)).astype(np.float32)
    (layer,) = compare_layers(model, find_device(), CompileOptions(), [x])
    assert layer.verdict == f"{ROUNDED} LiteRT"


@pytest.mark.needs_device
@needs_litert
@pytest.mark.parametrize(("rows", "outputs"), [(1, 1), (3, 11)])
def test_rounding_is_not_blamed_for_more_than_it_does(
    monkeypatch: pytest.MonkeyPatch, rows: int, outputs: int
) -> None:
    """Signed bytes read as unsigned ones: far more than LiteRT's rounding could do."""
    monkeypatch.setattr(operation, "_SIGNED_WEIGHTS", frozenset())
    generator = np.random.default_rng(6)
    whole = generator.integers(-127, 128, (outputs, 37)).astype(np.int8).view(np.uint8)
    model = writer.write(
        [
            writer.Tensor("x", (rows, 37)),
            writer.Tensor("w", whole.shape, "uint8", data=whole, scale=[0.01], zero_point=[0]),
            writer.Tensor("y", (rows, outputs)),
        ],
        [writer.Operator("FULLY_CONNECTED", ["x", "w", None], ["y"], "FullyConnectedOptions")],
        ["x"],
        ["y"],
    )
    x = generator.normal(0, 1, (rows, 37)).astype(np.float32)
    (layer,) = compare_layers(model, find_device(), CompileOptions(), [x])
    assert layer.verdict == MEANING


@pytest.mark.needs_device
@needs_litert
def test_a_wrong_definition_is_told_from_what_follows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """TANH as a logistic: the kernel does what the definition says, and LiteRT does not."""
    wrong = Rule(lambda op: op.give("logistic", op.input(0)))
    monkeypatch.setattr(walk, "rules", lambda: {**rules(), "TANH": wrong})
    layers = {
        layer.name: layer.verdict
        for layer in compare_layers(network(), find_device(), CompileOptions(), inputs())
    }
    assert layers == {"first": AGREES, "t": MEANING, "y": CARRIED}


@pytest.mark.needs_device
@needs_litert
def test_verify_says_whether_all_agree(model: Path) -> None:
    shown = CliRunner().invoke(main, ["verify", str(model), "--layers"])
    assert shown.exit_code == 0, shown.output
    assert "3 of 3 values on the way agree" in shown.output
    assert "all agree with LiteRT" in shown.output


@pytest.mark.needs_device
@needs_litert
def test_verify_takes_arrays_of_a_folder(model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "inputs"
    folder.mkdir()
    for number in range(2):
        np.save(folder / f"{number}.npy", inputs()[0] * number)
    told = CliRunner().invoke(main, ["verify", str(model), "--inputs", str(folder), "--json"])
    data = json.loads(told.output)
    assert data["agrees"]
    assert sorted(data["samples"]) == ["0.npy", "1.npy"]


@pytest.mark.needs_device
@needs_litert
def test_verify_begins_anew_with_each_sample(tmp_path: Path) -> None:
    model, folder = tmp_path / "lstm.tflite", tmp_path / "samples"
    model.write_bytes(sequence_lstm())
    folder.mkdir()
    for seed in range(3):
        x = np.random.default_rng(seed).uniform(-1, 1, (2, 3, 5)).astype(np.float32)
        np.save(folder / f"{seed}.npy", x)
    done = CliRunner().invoke(main, ["verify", str(model), "--inputs", str(folder)])
    assert done.exit_code == 0, done.output


@pytest.mark.needs_device
@needs_litert
def test_shapes_that_litert_does_not_take_are_no_crash(tmp_path: Path) -> None:
    path = tmp_path / "lstm.tflite"
    path.write_bytes(sequence_lstm())
    words = [str(path), "--shape", "x=4x3x5"]
    verified = CliRunner().invoke(main, ["verify", *words])
    assert verified.exit_code == 2
    assert "LiteRT does not take these shapes" in verified.output
    measured = CliRunner().invoke(main, ["bench", *words, "--runs", "1", "--seconds", "0"])
    assert measured.exit_code == 0, measured.output
