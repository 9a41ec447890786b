"""The comparison with other runtimes: its networks, its translations, and a short run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from docs.tiny_model import tiny_model

from fourfold.formats import ReadOptions, read_model
from fourfold.types import TensorType

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
PACKAGES = {"onnx_runtime": "onnxruntime", "pytorch": "torch", "tinygrad_opencl": "tinygrad"}


@pytest.fixture(autouse=True)
def _paths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(BENCHMARKS), *sys.path]))


@pytest.mark.parametrize("name", ["mobilenet_v1", "mobilenet_v2", "resnet50"])
def test_networks_support_any_batch(name: str) -> None:
    from networks import network_bytes

    data = network_bytes(name)
    graph = read_model(data).main
    assert graph.types[graph.outputs[0]] == TensorType.parse("f32[1,1000]")
    wide = read_model(data, ReadOptions({graph.inputs[0]: (7, 224, 224, 3)})).main
    assert wide.types[wide.outputs[0]] == TensorType.parse("f32[7,1000]")


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("name", PACKAGES)
def test_translations_agree_with_litert(name: str, batch: int, tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert.interpreter")
    pytest.importorskip(PACKAGES[name])
    from peers import Task, open_peer, rows

    model = tmp_path / "tiny.tflite"
    model.write_bytes(tiny_model())
    task = Task(model, batch, "fp32", "auto", 1)
    opened = open_peer(name, task)
    result = (opened.check or opened.run)()
    expected = open_peer("litert", task).run()
    for ours, theirs in zip(result, expected, strict=True):
        np.testing.assert_allclose(rows(ours) if opened.planes else ours, theirs, 1e-4, 1e-6)


def test_ncnn_files_split_shared_blobs() -> None:
    from peers.ncnn_vulkan import NcnnFile

    file = NcnnFile()
    x = file.layer("Input", [], [])
    total = file.add(file.clip(x, None), x)
    lines = file.text().splitlines()
    assert lines[1] == "4 5"
    assert lines[3] == f"Split {x}_split 1 2 {x} {x}_0 {x}_1"
    assert lines[-1] == f"BinaryOp {total} 2 1 b1 {x}_0 {total} 0=0"


@pytest.mark.needs_device
def test_compares_fourfold_on_several_devices(tmp_path: Path) -> None:
    """Each variant has its own device, as for one GPU through two APIs; runs are interleaved."""
    model, output = tmp_path / "tiny.tflite", tmp_path / "out.json"
    model.write_bytes(tiny_model())
    words = [str(model), "--peers", "none", "--beside", "opencl:0,nowhere:0", "--seconds", "0.1"]
    words += ["--ways", "bytes,tensors,torch", "--json", str(output)]
    command = [sys.executable, str(BENCHMARKS / "compare.py"), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    (row,) = json.loads(output.read_text())["models"]
    for name in ("ours", "ours@opencl:0"):
        times = row["engines"][name]["seconds"]
        assert {"run", "bytes", "tensors"} <= times.keys()
        assert "torch" not in times
    assert "nowhere" in row["engines"]["ours@nowhere:0"]["missing"]
    assert "| tiny | bytes | fourfold opencl:0 | 0." in done.stdout


def test_variants_are_shown_next_to_the_first_engine() -> None:
    from compare import ways_table

    def engine(median: float, **others: object) -> dict[str, object]:
        return {"missing": "", "facts": {}, "seconds": {"run": numbers(median)}, **others}

    def numbers(median: float) -> dict[str, float]:
        return {"median": median, "min": median / 2, "runs": 3}

    engines = {"ours": engine(1e-3), "ours@opencl:0": engine(2e-3, facts={"no bytes": "none"})}
    lines = ways_table([{"model": "m", "engines": engines}], tuple(engines), ["bytes"])
    assert lines[2:] == [
        "| m | floats | fourfold | 1.0000 | 0.5000 | 1.00 | 1.00 | 3 |",
        "| m | floats | fourfold opencl:0 | 2.0000 | 1.0000 | 0.50 | 0.50 | 3 |",
        "| m | bytes | fourfold | – | – | – | – | – |",
        "| m | bytes | fourfold opencl:0 | none | – | – | – | – |",
    ]


@pytest.mark.needs_device
def test_short_run_fills_the_table(tmp_path: Path) -> None:
    model, output = tmp_path / "tiny.tflite", tmp_path / "out.json"
    model.write_bytes(tiny_model())
    words = [str(model), "--peers", "litert,ncnn_vulkan", "--seconds", "0.1", "--json", str(output)]
    script = str(BENCHMARKS / "compare.py")
    command = [sys.executable, script, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "| tiny |" in done.stdout
    (row,) = json.loads(output.read_text())["models"]
    assert row["engines"]["ours"]["seconds"]["run"]["median"] > 0
    assert row["engines"]["ncnn_vulkan"]["missing"] or row["engines"]["ncnn_vulkan"]["seconds"]


def test_peak_memory_counts_values_live_at_once() -> None:
    from memory import least_bytes

    from fourfold.compiler.rewrite import rewrite

    graph = rewrite(read_model(tiny_model()).main)
    features, pooled, logits = 16 * 16 * 8 * 4, 8 * 4, 10 * 4
    assert least_bytes(graph, half=False) in (features + pooled, features + pooled + logits)
    assert least_bytes(graph, half=True) == least_bytes(graph, half=False) // 2
