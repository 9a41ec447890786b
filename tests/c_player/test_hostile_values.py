"""The C player refuses indices out of range, and survives those that a model computes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from c_player.build import SANITIZED, command, run, run_json
from onnx_writer import graph, model, node

import fourfold
from fourfold.device import DeviceInfo
from fourfold.options import CompileOptions
from fourfold.store.draft import Draft
from fourfold.tools.preparation import prepare_model

ROWS = 7
TABLE = np.arange(ROWS * 5, dtype=np.float32).reshape(ROWS, 5)
INT64 = 7  # ONNX's number of the element type
NUMBERS = np.float32([np.nan, np.inf, -np.inf, 3e38, 2.0**31, -(2.0**31), 30000, -30000, 3, -8])
NO_LEAKS = {"ASAN_OPTIONS": "detect_leaks=0"}  # drivers do not free everything at exit


def prepare(path: Path, content: bytes, device: DeviceInfo) -> Path:
    draft = Draft()
    source = path.with_suffix(".onnx")
    source.write_bytes(content)
    prepare_model(draft, source, device, CompileOptions(), {})
    draft.write(path)
    return path


def save(folder: Path, array: np.ndarray) -> Path:
    folder.mkdir(exist_ok=True)
    np.save(folder / "0.0.npy", array)
    return folder


def test_refuses_indices_out_of_range(device: DeviceInfo, tmp_path: Path) -> None:
    lookup = node("Gather", ["table", "ids"], ["y"])
    ports = [("ids", "int64", [3])], [("y", "float", None)]
    content = model(graph([lookup], *ports, {"table": TABLE}))
    path = prepare(tmp_path / "m.fourfold", content, device)
    words = (path, "--device", str(device.ordinal), "--inputs")
    for wrong in (ROWS, -ROWS - 1, 2**40, -(2**63)):
        inputs = save(tmp_path / "in", np.array([0, wrong, 1], np.int64))
        done = run(*words, inputs, program=command(SANITIZED), **NO_LEAKS)
        assert done.returncode == 1
        assert f"input 'ids' contains {wrong}" in done.stderr
    inputs = save(tmp_path / "in", np.array([0, -ROWS, ROWS - 1], np.int64))
    (line,) = run_json(*words, inputs, "--output", tmp_path / "out")
    assert np.array_equal(np.load(line["outputs"][0]["file"]), TABLE[[0, 0, -1]])


def computed_indices() -> bytes:
    """Return a model that casts its numbers to indices, and uses them in every way."""
    count, square = len(NUMBERS), np.arange(ROWS * ROWS, dtype=np.float32).reshape(ROWS, ROWS)
    constants = {
        "table": TABLE,
        "square": square,
        "line": np.arange(ROWS, dtype=np.float32),
        "column": np.array([count, 1], np.int64),
        "pairs": np.array([count // 2, 2], np.int64),
        "updates": np.ones(count, np.float32),
        "sequence": np.arange(3 * count * 4, dtype=np.float32).reshape(3, count, 4),
    }
    nodes = [
        node("Cast", ["x"], ["ids"], to=INT64),
        node("Reshape", ["ids", "column"], ["rows"]),
        node("Reshape", ["ids", "pairs"], ["places"]),
        node("Gather", ["table", "ids"], ["a"]),
        node("GatherElements", ["line", "ids"], ["b"]),
        node("GatherND", ["square", "places"], ["c"]),
        node("ScatterElements", ["line", "ids", "updates"], ["d"], reduction="add"),
        node("ScatterND", ["line", "rows", "updates"], ["e"], reduction="add"),
        node("ReverseSequence", ["sequence", "ids"], ["f"], batch_axis=1, time_axis=0),
    ]
    outputs = [(name, "float", None) for name in "abcdef"]
    return model(graph(nodes, [("x", "float", [count])], outputs, constants))


def test_computed_indices_stay_inside(device: DeviceInfo, tmp_path: Path) -> None:
    path = prepare(tmp_path / "m.fourfold", computed_indices(), device)
    with fourfold.Session(str(path), device=device.address, cache=None) as session:
        expected = session.run(NUMBERS)
    assert all(np.isfinite(array).all() for array in expected.values())
    assert all(one in TABLE for one in expected["a"])
    program = command(SANITIZED)
    inputs = save(tmp_path / "in", NUMBERS)
    words = (path, "--device", str(device.ordinal), "--inputs", inputs, "--json")
    done = run(*words, "--output", tmp_path / "out", program=program, **NO_LEAKS)
    assert done.returncode == 0, done.stderr
    for number, array in enumerate(expected.values()):
        (file,) = (tmp_path / "out").glob(f"*.{number}.npy")
        assert np.load(file).tobytes() == array.tobytes()
