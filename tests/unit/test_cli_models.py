"""Commands on models: accepted files, and errors for all others."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from command_calls import ask, call
from docs.tiny_model import tiny_model
from tflite_writer import Operator, Tensor, write

import fourfold
from fourfold.device import DeviceInfo
from fourfold.errors import InputError
from fourfold.options import SessionOptions
from fourfold.tools.report.benchmark import Benchmark
from fourfold.tools.report.rival import parse_rivals
from fourfold.tools.report.timing import take_turns_in_streams

RELU = write(
    [Tensor("x", (1, 8)), Tensor("y", (1, 8))], [Operator("RELU", ["x"], ["y"])], ["x"], ["y"]
)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "relu.tflite"
    path.write_bytes(RELU)
    return path


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory, device: DeviceInfo) -> Path:
    """Return a prepared file with two models."""
    folder = tmp_path_factory.mktemp("prepared")
    (folder / "relu.tflite").write_bytes(RELU)
    (folder / "tiny.tflite").write_bytes(tiny_model())
    out = folder / "two.fourfold"
    models = (folder / "relu.tflite", folder / "tiny.tflite")
    result = call("prepare", *models, "-o", out, "--device", device.index, "--only-here")
    assert result.exit_code == 0, result.output
    return out


def test_one_of_several_models_is_chosen_by_its_name(prepared: Path, device: DeviceInfo) -> None:
    at = ("--device", device.index)
    for command in ("run", "check", "explain", "estimate"):
        refused = call(command, prepared, *at)
        assert refused.exit_code == 2
        assert "pass model=, or --model; use one of: relu, tiny" in refused.output
    assert ask("estimate", prepared, "--model", "relu", *at)["inputs"] == 64
    found = ask("check", prepared, "--model", "tiny", *at)["prepared"]
    assert (found["model"], found["fits_device"]) == ("tiny", True)
    assert found["placement"]["on_gpu"] == found["placement"]["operators"]
    assert "operators run on" in call("check", prepared, "--model", "tiny", *at).output


def test_a_prepared_file_is_explained_by_its_plan(prepared: Path, device: DeviceInfo) -> None:
    words = ("explain", prepared, "--model", "relu", "--device", device.index)
    assert "relu_0(" in ask(*words)["text"]
    assert "kernel" in ask(*words, "--stage", "kernels")["text"]
    refused = call(*words, "--stage", "graph")
    assert "not the graph that they were made from" in refused.output


def test_the_graph_shows_unsupported_operators(tmp_path: Path) -> None:
    ends = [Tensor("x", (4,)), Tensor("y", (4, 4))]
    path = tmp_path / "diag.tflite"
    path.write_bytes(write(ends, [Operator("MATRIX_DIAG", ["x"], ["y"])], ["x"], ["y"]))
    assert "title=MATRIX_DIAG" in call("explain", path).output
    assert "part 0 on litert: x -> y" in call("explain", path, "--stage", "plan").output


def test_bench_measures_all_models_and_says_which_it_cannot(
    prepared: Path, model: Path, device: DeviceInfo
) -> None:
    page = model.parent / "page.html"
    page.write_text("<html>")
    quick = ("--runs", 3, "--seconds", 0, "--no-compare", "--device", device.index)
    result = call("bench", prepared, page, model, *quick, "--json")
    assert result.exit_code == 1
    relu, tiny, broken, alone = json.loads(result.output)["models"]
    assert [one["title"] for one in (relu, tiny, alone)] == [
        "relu of two.fourfold",
        "tiny of two.fourfold",
        "relu.tflite",
    ]
    assert broken["error"]["why"] == "it is an HTML or XML page"
    assert tiny["seconds"]["fourfold"]["runs"] == 3
    shown = call("bench", prepared, model, *quick)
    assert "frames/s" in shown.output


def test_bench_keeps_streams_busy(model: Path, device: DeviceInfo) -> None:
    words = ("--streams", 2, "--runs", 8, "--seconds", 1, "--no-compare", "--device", device.index)
    report = ask("bench", model, *words)
    assert report["streams"] == 2
    assert report["seconds"]["fourfold"]["runs"] >= 8
    assert report["throughput"]["fourfold"] > 0


def test_streams_run_at_the_same_time() -> None:
    together = threading.Barrier(2, timeout=10)  # breaks if one waits for the other to end
    times = take_turns_in_streams({"a": [together.wait, together.wait]}, runs=8, limit=10.0)
    assert times["a"].runs >= 8


@pytest.mark.parametrize("command", ["run", "bench"])
def test_names_of_inputs_are_checked_before_any_work(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("FOURFOLD_CACHE", str(tmp_path / "store"))
    monkeypatch.setattr(fourfold, "Session", lambda *_, **__: pytest.fail("it was opened"))
    result = call(command, model, "--input", f"z={model}")
    assert result.exit_code == 2
    assert "the model has no input 'z'" in result.output
    assert "is missing" in call(command, model, "--input", "x=missing.npy").output


def test_paths_that_are_no_files_have_a_reason(model: Path) -> None:
    near = call("check", model.parent / "rellu.tflite")
    assert (near.exit_code, f"did you mean '{model}'?" in near.output) == (2, True)
    for words in (
        ("run",),
        ("bench",),
        ("inspect",),
        ("prepare", "-o", "x.fourfold"),
        ("web", "-o", "x"),
    ):
        address = call(*words, "https://example.com/m.tflite")
        assert "is a URL" in address.output


def test_runtimes_to_compare_with_have_names(model: Path) -> None:
    assert parse_rivals("litert,onnxruntime") == ("litert", "onnxruntime")
    assert parse_rivals("none") == ()
    with pytest.raises(InputError, match="did you mean 'litert'"):
        parse_rivals("litrt")
    assert parse_rivals(True) == ("own",)
    with Benchmark(str(model), SessionOptions(device="cpu"), streams=1) as benchmark:
        calls, notes = benchmark.open_rivals({}, ("onnxruntime",))
    assert calls == {}
    assert "ONNX Runtime does not run TFLite models" in notes[0]
