"""Verify finds the layer where results differ, reports it as text and JSON, and sets the
exit code.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest
import tflite_writer as writer
from click.testing import CliRunner
from convolution_network import network
from split_models import split_model
from stateful_models import sequence_lstm

from fourfold.backends import find_device
from fourfold.backends.cpu import litert
from fourfold.cli import main
from fourfold.cli.verify import short_paths
from fourfold.compiler.lower import specialise, storage
from fourfold.formats.tflite import operation, walk
from fourfold.formats.tflite.convert import rules
from fourfold.formats.tflite.operation import Rule
from fourfold.ops import tanh
from fourfold.ops.base import Op, registry
from fourfold.options import CompileOptions
from fourfold.tools.report.compare import deviation
from fourfold.tools.report.layer_comparison import LayerComparison
from fourfold.tools.report.layers import AGREES, CARRIED, HALF, KERNEL, MEANING, OVERFLOW, ROUNDED
from fourfold.tools.report.verification import DIFFERS, FLAT, GROWN, PLAN, compare_outputs
from fourfold.tools.report.verify import Sample, compare_layers, verify_sample

needs_litert = pytest.mark.skipif(not litert.ENGINE.installed(), reason="LiteRT is not installed")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "network.tflite"
    path.write_bytes(network())
    return path


def test_differences_are_relative_to_the_range() -> None:
    expected = np.array([0.0, 10.0])
    assert deviation(np.array([0.0, 9.0]), expected).largest == pytest.approx(0.1)
    broken = deviation(np.array([np.nan, np.inf]), expected)
    assert (broken.nan, broken.infinite, broken.broken) == (1, 1, True)
    assert deviation(np.zeros(3), expected).broken
    assert deviation(np.zeros((0,)), np.zeros((0,))).largest == 0
    assert deviation(np.zeros(2), np.array([0, 7e4])).beyond_half == 1


def test_differences_have_the_measures_that_people_know() -> None:
    expected, ours = np.array([[3.0, 4.0], [1.0, 0.0]]), np.array([[3.0, 4.0], [0.0, 1.0]])
    found = deviation(ours, expected)
    assert (found.absolute, found.differing, found.same_top) == (1.0, 0.5, 0.5)
    assert found.relative == pytest.approx(np.sqrt(2 / 26))
    assert found.cosine == pytest.approx(25 / 26)
    assert found.psnr == pytest.approx(10 * np.log10(16 / 0.5))
    same = deviation(expected, expected)
    assert (same.cosine, same.psnr, same.same_top) == (1.0, float("inf"), 1.0)


def test_an_output_of_few_steps_says_little() -> None:
    flat, wide = np.array([-128, -127], np.int8), np.array([-128, 127], np.int8)
    (told,) = compare_outputs([flat], [flat], ["y"], "fp32")
    assert (told.verdict, told.agrees) == (FLAT, True)
    assert compare_outputs([wide], [wide], ["y"], "fp32")[0].verdict == AGREES
    (far,) = compare_outputs([wide // 2], [wide], ["y"], "fp32")
    assert (far.agrees, far.steps) == (False, 64.0)


def inputs(scale: float = 1.0) -> list[np.ndarray]:
    return [np.random.default_rng(0).normal(0, scale, (1, 32, 32, 3)).astype(np.float32)]


@pytest.mark.needs_device
@needs_litert
def test_layers_agree() -> None:
    layers = compare_layers(network(), find_device(), CompileOptions(), inputs())
    assert [layer.name for layer in layers] == ["first", "t", "y"]
    assert {layer.verdict for layer in layers} == {AGREES}
    assert all(layer.own is not None and layer.own.largest < 5e-5 for layer in layers)


@pytest.mark.needs_device
@needs_litert
def test_lost_precision_is_distinguished_from_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "MAX_FP32_ELEMENTS", 0)  # else the small model stays in fp32
    monkeypatch.setattr(specialise, "MAX_FP32_ARENA_BYTES", 0)
    layers = compare_layers(network(), find_device(), CompileOptions("mixed"), inputs(1e5))
    wrong = [layer for layer in layers if not layer.agrees]
    assert wrong
    assert wrong[0].verdict in (HALF, OVERFLOW)
    assert not any(layer.is_fault for layer in layers)


def fully_connected(whole: np.ndarray, rows: int) -> bytes:
    return writer.write(
        [
            writer.Tensor("x", (rows, whole.shape[1])),
            writer.Tensor("w", whole.shape, str(whole.dtype), whole, [0.01], [0]),
            writer.Tensor("y", (rows, whole.shape[0])),
        ],
        [writer.Operator("FULLY_CONNECTED", ["x", "w", None], ["y"], "FullyConnectedOptions")],
        ["x"],
        ["y"],
    )


@pytest.mark.needs_device
@needs_litert
def test_rounding_in_litert_is_not_a_fault() -> None:
    """With integer weights and float values, LiteRT rounds the values before it multiplies."""
    generator = np.random.default_rng(5)
    model = fully_connected(generator.integers(-127, 128, (11, 37)).astype(np.int8), 3)
    x = generator.normal(0, 1, (3, 37)).astype(np.float32)
    (layer,) = compare_layers(model, find_device(), CompileOptions(), [x])
    assert layer.verdict == f"{ROUNDED} LiteRT"
    assert "symmetric 8 bits for each" in layer.reason


@pytest.mark.needs_device
@needs_litert
@pytest.mark.parametrize(("rows", "outputs"), [(1, 1), (3, 11)])
def test_rounding_is_not_blamed_for_more_than_it_does(
    monkeypatch: pytest.MonkeyPatch, rows: int, outputs: int
) -> None:
    """Signed weights read as unsigned cause larger errors than LiteRT's rounding."""
    monkeypatch.setattr(operation, "_SIGNED_WEIGHTS", frozenset())
    generator = np.random.default_rng(6)
    whole = generator.integers(-127, 128, (outputs, 37)).astype(np.int8).view(np.uint8)
    x = generator.normal(0, 1, (rows, 37)).astype(np.float32)
    (layer,) = compare_layers(fully_connected(whole, rows), find_device(), CompileOptions(), [x])
    assert layer.verdict == MEANING


@pytest.mark.needs_device
@needs_litert
def test_a_wrong_definition_is_distinguished_from_its_consequences(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """TANH is read as a logistic: the kernel follows the definition, but LiteRT differs."""
    wrong = Rule(lambda op: op.give("logistic", op.input(0)))
    monkeypatch.setattr(walk, "rules", lambda: {**rules(), "TANH": wrong})
    layers = {
        layer.name: layer.verdict
        for layer in compare_layers(network(), find_device(), CompileOptions(), inputs())
    }
    assert layers == {"first": AGREES, "t": MEANING, "y": CARRIED}


@pytest.mark.needs_device
@needs_litert
def test_a_wrong_kernel_is_distinguished_from_its_consequences(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wrong = replace(tanh.OP, pointwise=lambda attributes, x: x * 0.5)
    monkeypatch.setitem(cast(dict[str, Op], registry()), "tanh", wrong)
    layers = {
        layer.name: layer.verdict
        for layer in compare_layers(network(), find_device(), CompileOptions(), inputs())
    }
    assert layers == {"first": AGREES, "t": KERNEL, "y": CARRIED}


def sample_of(model: bytes, ours: np.ndarray, x: np.ndarray) -> Sample:
    return Sample(model, find_device(), CompileOptions(), [x], [ours], ["y"])


@pytest.mark.needs_device
@needs_litert
def test_a_session_that_is_not_its_layers_is_found() -> None:
    """If every layer is right but the session's result is not, its plan is at fault."""
    (theirs,) = litert.ENGINE.open_model(network(), {"x": inputs()[0]}, 1)()
    found = verify_sample(sample_of(network(), theirs * 1.01, inputs()[0]), [theirs], "LiteRT")
    assert not found.agrees
    assert found.outputs[0].verdict == PLAN


@pytest.mark.needs_device
@needs_litert
@pytest.mark.parametrize(("looked_at", "verdict"), [(1.001, PLAN), (1.2, HALF)])
def test_fp16_layers_may_differ_as_much_as_the_session(
    looked_at: float, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inspected values are stored and therefore rounded; the session's kernels continue
    in floats.
    """
    (theirs,) = litert.ENGINE.open_model(network(), {"x": inputs()[0]}, 1)()

    def outputs(self: LayerComparison, full: bool = False) -> list[np.ndarray]:
        return [theirs if full else theirs * looked_at]

    monkeypatch.setattr(LayerComparison, "outputs", outputs)
    sample = replace(
        sample_of(network(), theirs * 1.07, inputs()[0]), options=CompileOptions(precision="mixed")
    )
    assert verify_sample(sample, [theirs], "LiteRT").outputs[0].verdict == verdict


@pytest.mark.needs_device
@needs_litert
def test_floats_whose_roundings_grow_are_judged_by_the_exact_result() -> None:
    """The engine's results are off by a thousandth, but no layer of either side is."""
    x = np.random.default_rng(3).normal(0, 1, (1, 32, 32, 3)).astype(np.float32)
    (theirs,) = litert.ENGINE.open_model(network(), {"x": x}, 1)()
    right = verify_sample(sample_of(network(), theirs, x), [theirs * 1.001], "LiteRT")
    assert (right.agrees, right.outputs[0].verdict) == (True, GROWN)


@pytest.mark.needs_device
@needs_litert
@pytest.mark.parametrize("factor", [1.0, 1.01, np.nan])
def test_a_model_in_parts_is_judged_by_the_engines_own_spread(factor: float) -> None:
    """If no layer explains an output, each part is judged from the engine's values.

    XNNPACK's results are off by a thousandth here; ours are off by the same, by ten times that, or
    are NaN.
    """
    x = np.random.default_rng(4).normal(0, 1, (1, 5)).astype(np.float32)
    (plain,) = litert.ENGINE.open_model(split_model(), {"x": x}, 1)()
    sample = sample_of(split_model(), plain * np.float32(factor), x)
    found = verify_sample(sample, [plain * np.float32(1.001)], "LiteRT")
    assert found.outputs[0].spread is not None
    assert found.outputs[0].spread.relative == pytest.approx(1e-3, rel=0.01)
    assert found.outputs[0].verdict == (GROWN if factor == 1 else DIFFERS)
    assert found.agrees == (factor == 1)
    assert "LiteRT's optimized and plain kernels are " in found.reason


@pytest.mark.needs_device
@needs_litert
def test_the_last_digits_of_long_sums_are_no_fault() -> None:
    """Floats are summed one after another, and here all sums are rounded in the same direction."""
    x = np.broadcast_to(np.float32([1.003, 2.007, 3.001, 4.003]), (1, 400, 500, 4)).copy()
    model = writer.write(
        [
            writer.Tensor("x", x.shape),
            writer.constant("axes", [1, 2], "int32"),
            writer.Tensor("y", (1, 4)),
        ],
        [writer.Operator("MEAN", ["x", "axes"], ["y"], "ReducerOptions")],
        ["x"],
        ["y"],
    )
    (layer,) = compare_layers(model, find_device(), CompileOptions(), [x])
    assert layer.engine_own is not None
    assert layer.engine_own.largest > 1e-4
    assert not layer.is_fault, layer.reason


@pytest.mark.needs_device
@needs_litert
def test_the_last_digits_of_numbers_that_hardly_differ_are_no_fault() -> None:
    x = (1 + 1e-7 * np.arange(12)).astype(np.float32).reshape(1, 12)
    tensors = [writer.Tensor("x", x.shape), writer.constant("c", [1.1], "float32")]
    multiply = writer.Operator("MUL", ["x", "c"], ["y"], "MulOptions")
    model = writer.write([*tensors, writer.Tensor("y", x.shape)], [multiply], ["x"], ["y"])
    (layer,) = compare_layers(model, find_device(), CompileOptions(), [x])
    assert layer.own is not None
    assert layer.own.largest > 1e-2
    assert not layer.is_fault, layer.reason


@pytest.mark.needs_device
@needs_litert
def test_verify_says_whether_all_agree(model: Path) -> None:
    shown = CliRunner().invoke(main, ["verify", str(model), "--layers"])
    assert shown.exit_code == 0, shown.output
    assert "3 of 3 intermediate values agree" in shown.output
    assert "all outputs agree with LiteRT" in shown.output


@pytest.mark.needs_device
@needs_litert
def test_verify_fits_eighty_columns_and_says_which_layer_loses_most(model: Path) -> None:
    words = ["verify", str(model), "--layers", "--precision", "mixed"]
    shown = CliRunner().invoke(main, words)
    assert shown.exit_code == 0, shown.output
    assert "difference that layers add by themselves in mixed, largest first:" in shown.output
    table = shown.output[shown.output.index("output ") : shown.output.index("all outputs agree")]
    assert max(map(len, table.splitlines())) <= 80


def test_long_names_of_layers_stay_distinguishable() -> None:
    blocks = [f"Net/block_{number}/{kind}/relu6/Relu6" for number in (1, 12) for kind in "ab"]
    assert short_paths(blocks, 80) == [name.removeprefix("Net/") for name in blocks]
    found = short_paths([*blocks, "Net/logits;Net/bias"], 20)
    assert found[:2] == ["block_1/…relu6/Relu6"] * 2
    assert found[2:] == ["block_12/…elu6/Relu6"] * 2 + ["logits"]
    assert short_paths(["a_very_long_first_part/end", "x"], 20) == ["…long_first_part/end", "x"]


@pytest.mark.needs_device
@needs_litert
def test_verify_ends_with_one_and_names_the_layer(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = Rule(lambda op: op.give("logistic", op.input(0)))
    monkeypatch.setattr(walk, "rules", lambda: {**rules(), "TANH": wrong})
    shown = CliRunner().invoke(main, ["verify", str(model)])
    assert shown.exit_code == 1
    assert "differs from LiteRT: TANH 't': definition" in shown.output


@pytest.mark.needs_device
@needs_litert
def test_verify_ends_with_zero_where_rounding_is_all(tmp_path: Path) -> None:
    whole = np.random.default_rng(5).integers(-127, 128, (11, 37)).astype(np.int8)
    path = tmp_path / "dense.tflite"
    path.write_bytes(fully_connected(whole, 3))
    shown = CliRunner().invoke(main, ["verify", str(path)])
    assert shown.exit_code == 0, shown.output
    assert "correct, though not identical" in shown.output
    assert "LiteRT rounds in 1, first in FULLY_CONNECTED 'y'" in shown.output


@pytest.mark.needs_device
def test_without_the_runtime_it_is_said_how_to_install_it(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(litert.Litert, "installed", lambda self: False)
    shown = CliRunner().invoke(main, ["verify", str(model)])
    assert shown.exit_code == 0, shown.output
    assert "compared with the NumPy definitions of operators, not" in shown.output
    assert "LiteRT is not installed (pip install 'fourfold[litert]')" in shown.output
    assert "all outputs agree with NumPy" in shown.output


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
def test_verify_resets_states_for_each_sample(tmp_path: Path) -> None:
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
    assert "LiteRT does not accept these shapes" in verified.output
    measured = CliRunner().invoke(main, ["bench", *words, "--runs", "1", "--seconds", "0"])
    assert measured.exit_code == 0, measured.output
