"""docs/add-a-format.md, followed literally: its folder is written and found, and its model runs."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from docs.blocks import ROOT, blocks, write_files

import fourfold
from fourfold import formats
from fourfold.backends.cpu.reference import evaluate
from fourfold.cli import main
from fourfold.device import DeviceInfo
from fourfold.errors import FourfoldError
from fourfold.formats import ReadOptions, read_model
from fourfold.session import explain_stage

PAGE = ROOT / "docs" / "add-a-format.md"
FOLDER = Path("src/fourfold/formats/toy")
ROUNDS, LARGE = 1000, 10**6
KINDS = (b"0123456789", b"xyhrwb", b'"[]{},:- ')


@pytest.fixture
def overlay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Path]]:
    """Install the page's files in a folder that the package searches besides its own."""
    added = write_files(PAGE, tmp_path)
    folder = str(tmp_path / FOLDER.parent)
    monkeypatch.setattr(formats, "__path__", [*formats.__path__, folder])
    formats.formats.cache_clear()
    yield added
    for name in [name for name in sys.modules if name.startswith("fourfold.formats.toy")]:
        del sys.modules[name]
    vars(formats).pop("toy", None)
    monkeypatch.undo()
    formats.formats.cache_clear()


def content() -> bytes:
    """Return the model that the page shows."""
    (block,) = [block for block in blocks(PAGE) if block.language == "json"]
    return block.text.encode()


def changed(**changes: Any) -> bytes:
    return json.dumps({**json.loads(content()), **changes}).encode()


def expected(x: np.ndarray) -> np.ndarray:
    h = x @ np.array([[1, 0, 2], [0, -1, 1]], np.float32).T + np.array([0.5, -0.5], np.float32)
    return np.maximum(h, 0) + h


def numbers(rows: int) -> np.ndarray:
    return np.random.default_rng(7).uniform(-3, 3, (rows, 3)).astype(np.float32)


def test_page_adds_one_folder(overlay: list[Path]) -> None:
    assert overlay == [FOLDER / "__init__.py", FOLDER / "reader.py"]
    assert set(formats.formats()) >= {"tflite", "toy"}
    assert "fourfold.formats.toy.reader" not in sys.modules  # until a model is read


@pytest.mark.parametrize("words", [{}, {"shapes": {"x": (5, 3)}}, {"placement": "cpu"}], ids=str)
def test_model_runs(
    overlay: list[Path], words: dict[str, Any], tmp_path: Path, device: DeviceInfo
) -> None:
    path = tmp_path / "model.toy"
    path.write_bytes(content())
    x = numbers(*[shape[0] for shape in words.get("shapes", {"x": (1, 3)}).values()])
    target = None if "placement" in words else device
    with fourfold.Session(path, device=target, **words) as session:
        assert session.inputs[0].shape == x.shape
        np.testing.assert_allclose(session.run(x)["y"], expected(x), rtol=1e-5, atol=1e-5)


def test_fallback_operators_run_in_numpy(overlay: list[Path]) -> None:
    with fourfold.Session(content(), placement="cpu") as session:
        assert {row.target for row in session.placement.rows} == {"numpy"}


@pytest.mark.needs_device
def test_commands_support_the_format(overlay: list[Path], tmp_path: Path) -> None:
    path = tmp_path / "model.toy"
    path.write_bytes(content())
    alone = "Toy models have no CPU runtime of their own"
    checked = CliRunner().invoke(main, ["check", str(path), "--device", "null"])
    assert checked.exit_code == 0, checked.output
    assert "all 3 operators run on null" in checked.output
    for words in ([], ["--layers"], ["--shape", "x=5x3"]):
        verified = CliRunner().invoke(main, ["verify", str(path), *words])
        assert verified.exit_code == 0, verified.output
        assert (
            f"compared with the NumPy definitions of operators, not with a runtime:\n{alone}"
            in verified.output
        )
        assert "all outputs agree with NumPy" in verified.output
    short = ["--runs", "2", "--seconds", "0"]
    measured = CliRunner().invoke(main, ["bench", str(path), *short])
    assert measured.exit_code == 0, measured.output
    assert f"not compared with a CPU runtime: {alone}" in measured.output
    benchmark = CliRunner().invoke(main, ["bench", str(path), *short, "--json"])
    assert json.loads(benchmark.stdout)["compared"] is False


def test_model_describes_itself(overlay: list[Path]) -> None:
    model = read_model(content())
    assert (model.format, model.cpu_engine, model.source_graph) == ("Toy", None, None)
    assert model.open_sizes == ((-1, 3),)
    assert model.output_names == ("y",)
    assert explain_stage(content(), "graph", full_names=True).splitlines() == [
        "input x: f32[1,3]",
        "h = fully_connected(x, w, b): f32[1,2]",
        "r = relu(h): f32[1,2]",
        "y = add(r, h): f32[1,2]",
        "output y",
    ]


def test_operators_are_listed(overlay: list[Path]) -> None:
    report = json.loads(CliRunner().invoke(main, ["ops", "--json"]).output)
    assert report["toy"] == {"Add": "add.", "Dense": "fully_connected.", "Relu": "relu."}
    assert "CONV_2D" in report["tflite"]


@pytest.mark.parametrize(
    ("damaged", "why"),
    [
        (content()[:-20], "not a valid toy model"),
        (content().replace(b"[-1, 3]", b"[-1, 2.5]"), "not a valid toy model"),
        (content().replace(b'"f32"', b'"f33"'), "f33"),
        (
            content().replace(b'["x", "w", "b"]', b'["x", "w", "c"]'),
            "no earlier operator has written",
        ),
        (content().replace(b'"output": "r"', b'"output": "x"'), "already has a value"),
        (changed(outputs=["z"]), "output 'z'"),
        (changed(nodes=[]), "output 'y'"),
        (changed(constants={"w": [[1, 2], [3, 4]], "b": [0, 0]}), "Dense 'h'"),
        (changed(inputs=["x"]), "not a valid toy model"),
        (content().replace(b'"output": "r"', b'"output": 7'), "7 is not the name of a value"),
    ],
)
def test_rejects_damaged_models(overlay: list[Path], damaged: bytes, why: str) -> None:
    with pytest.raises(fourfold.ModelError, match=why):
        read_model(damaged)


def test_error_lists_every_unsupported_operator(overlay: list[Path]) -> None:
    nodes = [
        {"op": "Warp", "inputs": ["x"], "output": "a"},
        {"op": "Relu", "inputs": ["a"], "output": "b"},
        {"op": "Fold", "inputs": ["x"], "output": "y"},
    ]
    for options in (ReadOptions(), ReadOptions(keep_unsupported=True)):
        with pytest.raises(fourfold.UnsupportedError) as caught:
            read_model(changed(nodes=nodes), options)
        assert [refusal.op for refusal in caught.value.refusals] == ["Warp", "Fold"]


def test_rejects_mismatched_shapes(overlay: list[Path]) -> None:
    with pytest.raises(fourfold.InputError, match="Dense 'h' does not fit the requested shapes"):
        read_model(content(), ReadOptions({"x": (1, 4)}))
    with pytest.raises(fourfold.InputError, match="no input 'z'"):
        read_model(content(), ReadOptions({"z": (1, 3)}))


def test_damaged_files_raise_only_our_errors(overlay: list[Path]) -> None:
    """Readable damaged files must also be computable."""
    read = 0
    for number in range(ROUNDS):
        try:
            graph = read_model(mutate(random.Random(number))).main
        except FourfoldError:
            continue
        types = {name: graph.types[name] for name in graph.inputs}
        if all(type.elements < LARGE for type in types.values()):
            zeros = {name: np.zeros(type.shape, np.float32) for name, type in types.items()}
            evaluate(graph, zeros)
            read += 1
    assert ROUNDS / 50 < read < ROUNDS / 2


def mutate(rng: random.Random) -> bytes:
    """Change a few bytes, half of them within the same kind, so that the file stays JSON."""
    damaged, start = bytearray(content()), len(b'{"format": "toy"')
    for _ in range(rng.choice((1, 1, 2, 4))):
        offset = rng.randrange(start, len(damaged))
        kinds = [kind for kind in KINDS if damaged[offset] in kind]
        damaged[offset] = rng.choice(kinds[0] if kinds and rng.random() < 0.5 else b"".join(KINDS))
    return bytes(damaged)


def test_format_is_removed_after_the_test() -> None:
    assert "toy" not in formats.formats()
    with pytest.raises(fourfold.ModelError, match="a JSON file"):
        read_model(content())
