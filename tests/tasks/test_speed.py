"""Tasks of a newcomer: how fast a model runs, why, and how much memory it needs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fourfold

pytestmark = pytest.mark.needs_device
Ask = Callable[..., dict[str, Any]]


def test_compares_speed_with_another_runtime(ask: Ask) -> None:
    times = ask("fourfold bench classifier.tflite --runs 3 --seconds 1")["seconds"]
    assert set(times) == {"fourfold", "LiteRT CPU"}
    assert all(0 < one["min"] <= one["median"] for one in times.values())


def test_which_kernel_takes_the_time(ask: Ask) -> None:
    kernels = ask("fourfold bench classifier.tflite --runs 2 --seconds 1 --profile")["kernels"]
    times = [one["seconds"] for one in kernels]
    assert times == sorted(times, reverse=True)
    assert any("conv2d" in one["node"] for one in kernels)


def test_traces_what_ran_and_for_how_long(shell: Callable[..., str]) -> None:
    assert "opened colors.tflite" not in shell("fourfold run colors.tflite")
    said = shell("fourfold run colors.tflite -v")
    assert "opened colors.tflite from the model itself in" in said
    assert "build" in said


def test_a_timeline_to_look_at_in_perfetto(shell: Callable[..., str]) -> None:
    assert "perfetto" in shell("fourfold run colors.tflite --trace trace.json")
    events = json.loads(Path("trace.json").read_text(encoding="utf-8"))["traceEvents"]
    lanes = {event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert "host" in lanes
    spans = {event["name"] for event in events if event["ph"] == "X"}
    assert any("conv2d" in name for name in spans)
    assert "build" in spans


def test_all_of_it_on_one_page_for_a_colleague(shell: Callable[..., str]) -> None:
    shell("fourfold report colors.tflite -o report.html --json run.json --seconds 0.1")
    page = Path("report.html").read_text(encoding="utf-8")
    assert "colors.tflite" in page
    assert {"conv2d", "softmax"} <= set(re.findall(r"\w+", Path("run.json").read_text()))
    assert not re.search(r"(src|href)=\"https?:", page)  # it loads nothing from a network


def test_estimates_memory_before_anything_runs(folder: Path) -> None:
    told = fourfold.estimate("classifier.tflite")
    with fourfold.Session("classifier.tflite") as session:
        assert session.plan.device_bytes == told.total


def test_the_second_start_compiles_nothing(folder: Path) -> None:
    origins = []
    for _ in ("first", "second"):
        with fourfold.Session("colors.tflite", cache="kept") as session:
            origins.append(session.origin)
    assert origins == ["model", "store"]


def test_lists_and_clears_the_cache(
    shell: Callable[..., str], monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    monkeypatch.setenv("FOURFOLD_CACHE", str(folder / "kept"))
    shell("fourfold run colors.tflite")
    assert "colors.tflite" in shell("fourfold cache list")
    shell("fourfold cache clear --yes")
    assert "colors.tflite" not in shell("fourfold cache list")
