"""The command `fourfold optimize`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from small_networks import small_onnx

import fourfold
from fourfold.cli import main
from fourfold.export.optimize import answers
from fourfold.formats import formats, read_model

pytestmark = pytest.mark.needs_device


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "small.onnx"
    path.write_bytes(small_onnx())
    return path


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["optimize", *map(str, arguments)])


def data(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_the_report_says_what_each_pass_did(model: Path) -> None:
    result = invoke(model, "-o", model.with_name("out.onnx"), "--verify")
    assert result.exit_code == 0, result.output
    assert "1 add and 1 mul fewer" in result.stdout
    assert "operators run on" in result.stdout
    assert "outputs compared with" in result.stdout


def test_the_report_as_json(model: Path) -> None:
    found = data(invoke(model, "-o", model.with_name("out.onnx"), "--verify", "--json"))
    (one,) = found["models"]
    assert found["bytes_after"] == model.with_name("out.onnx").stat().st_size
    assert one["answers"]["agrees"] is True
    assert [row["name"] for row in one["passes"]][-1] == "fold_scales"


def test_each_option_reaches_the_file(model: Path) -> None:
    output = model.with_name("out.onnx")
    cut = (
        "--inputs",
        "image",
        "--outputs",
        "scores,features/channels_first",
        "--shape",
        "image=1,5,6,3",
    )
    result = invoke(model, "-o", output, *cut, "--no-fold-batch", "--targets", "cpu")
    assert result.exit_code == 0, result.output
    read = read_model(output)
    assert read.output_names == ("scores", "features/channels_first")
    assert any(node.op == "mul" for node in read.main.nodes)
    assert "run on the CPU" in result.stdout


def test_a_quantised_file_from_a_folder_of_arrays(model: Path) -> None:
    folder = model.with_name("samples")
    folder.mkdir()
    for number in range(5):
        image = np.random.default_rng(number).uniform(-1, 1, (1, 5, 6, 3))
        np.save(folder / f"{number}.npy", image.astype(np.float32))
    output = model.with_name("out.onnx")
    options = ("--quantize", "int8", "--calibrate", folder, "--ranges", "percentile")
    result = invoke(model, "-o", output, *options, "--samples", folder)
    assert result.exit_code == 0, result.output
    assert "ranges: percentile of 5 samples" in result.stdout
    assert "5 of 5" in result.stdout


def test_a_prepared_file_lists_its_plans(model: Path) -> None:
    output = model.with_name("out.fourfold")
    result = invoke(model, "-o", output, "--precision", "mixed", "--tune", "none")
    assert result.exit_code == 0, result.output
    assert "any gpu" in result.stdout
    with fourfold.Session(output, cache=None) as session:
        assert session.precision == "mixed"


def test_differing_answers_end_with_one(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(answers.TOLERANCES, "fp32", -1.0)
    result = invoke(model, "-o", model.with_name("out.onnx"), "--verify")
    assert result.exit_code == 1
    assert "differs" in result.stdout


def test_operators_by_format() -> None:
    found = data(invoke("--list-ops", "--json"))
    assert found["ONNX"]["written"]["conv2d"] == "Conv"
    assert found["ONNX"]["read"]
    assert found["Caffe"]["written"] == {}
    read = {form.name for form in formats().values() if form.converter is None}
    assert set(found) == read
    assert "written as ONNX" in invoke("--list-ops").stdout


def test_the_operators_of_a_model(model: Path) -> None:
    found = data(invoke(model, "--print-model-ops", "--device", "null", "--json"))
    rows = {row["op"]: row for row in found["operators"]}
    assert rows["Conv"]["count"] == 1
    assert rows["Conv"]["runs_on"] == "GPU"
    table = invoke(model, "--print-model-ops", "--device", "null").stdout
    assert "Conv" in table


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("small.onnx",), "no output was named"),
        (("-o", "out.onnx"), "no model was named"),
        (("small.onnx", "small.onnx", "--print-model-ops"), "2 models were named"),
        (("small.onnx", "-o", "out.onnx", "--shape", "image"), "cannot be read"),
        (("small.onnx", "-o", "small.onnx"), "is the model itself"),
        (("small.onnx", "-o", "out.onnx", "--outputs", "score"), "did you mean 'scores'"),
        (("small.onnx", "-o", "out.onnx", "--quantize", "int8"), "calibrate"),
        (("small.onnx", "-o", "out.onnx", "--ranges", "mse"), "option of quantization"),
    ],
)
def test_errors_say_what_to_do(
    model: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], what: str
) -> None:
    monkeypatch.chdir(model.parent)
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert what in result.stderr
    assert [path.name for path in model.parent.iterdir()] == ["small.onnx"]


def test_an_interruption_ends_with_130_and_changes_nothing(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    output = model.with_name("out.onnx")
    output.write_bytes(b"before")
    monkeypatch.setattr("fourfold.export.optimize.optimize.write_atomically", interrupt)
    result = invoke(model, "-o", output)
    assert result.exit_code == 130
    assert output.read_bytes() == b"before"
