"""Paddle files: lookup, open sizes, and errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from paddle_cases import CASES, pir_model
from paddle_writer import Operator, Program, parameter, parameters_file, program_file, write_model
from stored_answers import numbers

from fourfold import Session
from fourfold.backends.cpu.reference import evaluate
from fourfold.errors import InputError, ModelError, UnsupportedError
from fourfold.formats import Model, ReadOptions, find_format, formats, model_files, read_model

CASE = CASES["matmul_weights"]


def run(model: Model) -> np.ndarray:
    (result,) = evaluate(model.main, CASE.arrays).values()
    return result


def test_model_is_found_by_either_file_or_the_folder(tmp_path: Path) -> None:
    path = write_model(tmp_path, CASE.program)
    expected = run(read_model(path))
    for other in (path.with_suffix(".pdiparams"), tmp_path, str(path)):
        model = read_model(other)
        assert find_format(other) is formats()["paddle"]
        assert (model.input_names, model.output_names, model.format) == (("x",), ("y0",), "Paddle")
        assert np.array_equal(run(model), expected)
        assert set(model_files(other)) == {str(path), str(path.with_suffix(".pdiparams"))}


def test_files_may_be_in_different_folders(tmp_path: Path) -> None:
    path = write_model(tmp_path, CASE.program)
    expected = run(read_model(path))
    held = path.with_suffix(".pdiparams").rename(tmp_path / "other.pdiparams")
    for pair in ((path, held), (held, path)):
        with Session(pair, device="cpu") as session:
            assert np.allclose(session.run(CASE.arrays)["y0"], expected, atol=1e-5)
    with pytest.raises(InputError, match="a program and its"):
        Session((path, path), device="cpu")


def test_finds_json_programs(tmp_path: Path) -> None:
    path = pir_model().write(tmp_path)
    for other in (path, path.with_suffix(".pdiparams"), tmp_path):
        assert read_model(other).output_names == ("fetch_name_0",)


def test_rejects_other_json_files(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text('{"name": "pir"}')
    with pytest.raises(ModelError, match="JSON"):
        read_model(path)


@pytest.mark.parametrize("names", [("__params__",), ("p_Y",)])
def test_reads_older_folder_layouts(tmp_path: Path, names: tuple[str, ...]) -> None:
    """Parameters are in one file, or each in a file of its own."""
    expected = run(read_model(write_model(tmp_path, CASE.program)))
    folder = tmp_path / "old"
    folder.mkdir()
    (folder / "__model__").write_bytes(program_file(CASE.program))
    (folder / names[0]).write_bytes(parameters_file(CASE.program.parameters))
    for path in (folder, folder / "__model__"):
        assert np.array_equal(run(read_model(path)), expected)
        assert len(model_files(path)) == 2


def test_rejects_missing_parameters(tmp_path: Path) -> None:
    path = write_model(tmp_path, CASE.program)
    path.with_suffix(".pdiparams").unlink()
    with pytest.raises(ModelError, match=r"'p_Y' of the model is missing[\s\S]*\.pdiparams"):
        read_model(path)


def test_rejects_parameter_paths_outside_the_folder(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(parameter(numbers((7, 4))))
    operator = Operator("matmul_v2", {"X": ["x"], "Y": ["../secret"]}, {"Out": ["y"]})
    program = Program({"x": (3, 7)}, {"../secret": numbers((7, 4))}, [operator], ["y"])
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "__model__").write_bytes(program_file(program))
    with pytest.raises(ModelError, match="not a valid file name"):
        read_model(folder)


def test_rejects_a_missing_program(tmp_path: Path) -> None:
    path = write_model(tmp_path, CASE.program)
    path.unlink()
    with pytest.raises(ModelError, match="has no program"):
        read_model(path.with_suffix(".pdiparams"))


def test_rejects_folders_with_two_models(tmp_path: Path) -> None:
    write_model(tmp_path, CASE.program).rename(tmp_path / "other.pdmodel")
    write_model(tmp_path, CASE.program)
    with pytest.raises(ModelError, match=r"more than one model[\s\S]*other\.pdmodel"):
        read_model(tmp_path)


def test_open_image_sizes_need_shapes(tmp_path: Path) -> None:
    program = Program(
        {"x": (-1, 3, -1, -1)}, {}, [Operator("relu", {"X": ["x"]}, {"Out": ["y"]})], ["y"]
    )
    path = write_model(tmp_path, program)
    with pytest.raises(InputError, match=r"shapes=\{'x': \(1,3,224,224\)\}"):
        read_model(path)
    model = read_model(path, ReadOptions({"x": (2, 3, 5, 7)}))
    assert model.main.types["x"].shape == (2, 3, 5, 7)
    assert model.open_sizes == ((-1, 3, -1, -1),)


def test_open_batch_defaults_to_one(tmp_path: Path) -> None:
    program = Program({"x": (-1, 3)}, {}, [Operator("relu", {"X": ["x"]}, {"Out": ["y"]})], ["y"])
    assert read_model(write_model(tmp_path, program)).main.types["x"].shape == (1, 3)


def test_reshapes_follow_the_batch(tmp_path: Path) -> None:
    operators = [
        Operator("reshape2", {"X": ["x"]}, {"Out": ["r"]}, {"shape": [1, 2, -1]}),
        Operator("softmax", {"X": ["r"]}, {"Out": ["y"]}, {"axis": -1}),
    ]
    path = write_model(tmp_path, Program({"x": (1, 6)}, {}, operators, ["y"]))
    model = read_model(path, ReadOptions({"x": (4, 6)}))
    assert model.main.types[model.main.outputs[0]].shape == (4, 2, 3)


def test_variables_may_be_reassigned(tmp_path: Path) -> None:
    operators = [
        Operator("scale", {"X": ["x"]}, {"Out": ["v"]}, {"scale": 2.0, "bias": 0.0}),
        Operator("scale", {"X": ["v"]}, {"Out": ["v"]}, {"scale": 1.0, "bias": 1.0}),
    ]
    path = write_model(tmp_path, Program({"x": (3,)}, {}, operators, ["v"]))
    (result,) = evaluate(read_model(path).main, {"x": np.array([1, 2, 3], np.float32)}).values()
    assert result.tolist() == [3, 5, 7]


def test_error_lists_every_refusal(tmp_path: Path) -> None:
    operators = [
        Operator("while", {"X": ["x"]}, {"Out": ["a"]}),
        Operator("transpose2", {"X": ["x"]}, {"Out": ["b"], "XShape": ["s"]}, {"axis": [0]}),
        Operator("relu", {"X": ["s"]}, {"Out": ["c"]}),
    ]
    path = write_model(tmp_path, Program({"x": (3,)}, {}, operators, ["c"]))
    with pytest.raises(UnsupportedError) as caught:
        read_model(path)
    assert [(one.op, one.node) for one in caught.value.refusals] == [("while", "a"), ("relu", "c")]
    assert "'s' is not computed" in caught.value.refusals[1].reason


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda content: content[:-1], "28 bytes are expected|cannot be read"),
        (lambda content: content + b"\0", "1 bytes follow"),
        (lambda content: b"\1" + content[1:], "version 1"),
        (lambda content: content[:4] + b"\xff" * 8 + content[12:], "LoD levels"),
        (lambda content: b"", "only 0 remain"),
    ],
)
def test_rejects_damaged_parameters(
    change: Callable[[bytes], bytes], words: str, tmp_path: Path
) -> None:
    path = write_model(tmp_path, CASE.program)
    held = path.with_suffix(".pdiparams")
    held.write_bytes(change(held.read_bytes()))
    with pytest.raises(ModelError, match=words):
        read_model(path)


def write_damaged_json(change: Callable[[dict[str, Any]], None], folder: Path) -> Path:
    path = pir_model().write(folder)
    program = json.loads(path.read_text())
    change(program)
    path.write_text(json.dumps(program))
    return path


def block(program: dict[str, Any]) -> list[dict[str, Any]]:
    operators: list[dict[str, Any]] = program["program"]["regions"][0]["blocks"][0]["ops"]
    return operators


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda program: program.pop("program"), "not a valid Paddle model"),
        (lambda program: block(program)[3]["I"].append({"%": 99}), "value 99 is read before"),
        (lambda program: block(program)[3].pop("O"), "not a valid"),
        (lambda program: block(program).pop(0), "read before"),
        (lambda program: block(program)[2]["A"].clear(), "not a valid"),
        (lambda program: block(program).__setitem__(3, 5), "not a valid"),
        (
            lambda program: block(program)[3]["O"][0]["TT"]["D"].__setitem__(1, ["a"]),
            "not integer sizes",
        ),
    ],
)
def test_rejects_damaged_json(
    change: Callable[[dict[str, Any]], None], words: str, tmp_path: Path
) -> None:
    with pytest.raises(ModelError, match=words):
        read_model(write_damaged_json(change, tmp_path))


def test_rejects_deeply_nested_json(tmp_path: Path) -> None:
    path = pir_model().write(tmp_path)
    start = path.read_text()[:60]
    path.write_text(start + ',"x":' + "[" * 200_000)
    with pytest.raises(ModelError, match=r"nested too deeply|not a valid"):
        read_model(path)
