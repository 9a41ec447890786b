"""The benchmark of start times: interleaved devices, each with its own caches."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from docs.tiny_model import tiny_model

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.mark.needs_device
def test_measures_devices_interleaved(tmp_path: Path) -> None:
    model, output = tmp_path / "tiny.tflite", tmp_path / "out.json"
    model.write_bytes(tiny_model())
    words = [str(model), "--beside", "opencl:0", "--firsts", "1", "--rounds", "1"]
    command = [sys.executable, str(BENCHMARKS / "start.py"), *words, "--json", str(output)]
    paths = os.pathsep.join([str(BENCHMARKS), *sys.path])
    environment = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    (row,) = json.loads(output.read_text())["models"]
    for starts in (row["starts"], row["beside"]["opencl:0"]):
        assert starts["first"]["build"] > 0
        assert starts["first"]["make"] > 0
        # Neither a prepared file nor the cache compiles the model.
        assert starts["prepared"]["make"] == starts["kept"]["make"] == 0
    assert "first, build" in done.stdout


def test_compares_devices_in_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from start import beside_table

    kinds = ("first", "kept", "prepared", "prepared, again")
    own, other = (
        {kind: {"build": by, "total": 4 * by, "median total": 6 * by} for kind in kinds}
        for by in (0.1, 0.2)
    )
    table = beside_table([{"model": "m", "starts": own, "beside": {"opencl:0": other}}], "cuda:0")
    cells = [list(column.cells) for column in table.columns]
    assert [column[0] for column in cells] == [
        "m",
        "first, build",
        "100",
        "opencl:0",
        "200",
        "0.50",
        "",
    ]
    assert [column[3] for column in cells] == [
        "m",
        "prepared",
        "400",
        "opencl:0",
        "800",
        "0.50",
        "0.50",
    ]
