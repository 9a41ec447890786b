"""A trace contains what host and device did during runs, in a format that trace viewers read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from small_networks import deep_onnx
from split_models import split_model
from stateful_models import stream
from trace_rules import check_trace

from fourfold import Session
from fourfold.backends.null import NULL_GPU
from fourfold.backends.traced_run import TracedRun
from fourfold.compiler.compile import load_model, plan_graph
from fourfold.device import DeviceInfo
from fourfold.options import CompileOptions
from fourfold.plan.stage_clocks import StageClock, StageClocks, StageTitle
from fourfold.runtime.tracing import device_spans
from fourfold.support.trace import DEVICE, HOST, DeviceClock, Trace, TraceSpan

IMAGE = np.random.default_rng(3).uniform(-1, 1, (1, 14, 14, 32)).astype(np.float32)
PARTS = {"upload", "enqueue", "wait", "download"}


def spans_named(spans: Sequence[TraceSpan], name: str) -> list[TraceSpan]:
    return [one for one in spans if one.name == name]


def is_within(one: TraceSpan, other: TraceSpan) -> bool:
    ends_before = one.began + one.seconds <= other.began + other.seconds + 1e-9
    return other.began - 1e-9 <= one.began and ends_before


def test_writes_the_trace_event_format() -> None:
    trace = Trace("a GPU", began=10.0)
    trace.add(TraceSpan("run", "main", 10.5, 0.25, details={"number": 3}))
    trace.add(TraceSpan("conv2d", "launches", 10.6, 1e-3, DEVICE, {"node": "a"}))
    trace.add(TraceSpan("run", "in flight", 10.7, 0.1, in_flight=True))
    data = trace.to_json()
    check_trace(data)
    events = data["traceEvents"]
    heads = [one for one in events if one["ph"] == "M" and "name" in one["args"]]
    names = {one["args"]["name"]: (one["pid"], one["tid"]) for one in heads}
    assert names["host"][0] != names["a GPU"][0]
    run, kernel = (one for one in events if one["ph"] == "X")
    assert (run["ts"], run["dur"], run["args"]) == (500000, 250000, {"number": 3})
    assert (run["pid"], run["tid"]) == names["main"]
    assert (kernel["pid"], kernel["tid"]) == names["launches"]
    begin, end = (one for one in events if one["ph"] in "be")
    assert (begin["id2"], begin["cat"]) == (end["id2"], end["cat"])
    assert (begin["ts"], end["ts"]) == (700000, 800000)


def test_rounding_keeps_adjacent_spans_apart() -> None:
    """Viewers drop an event that begins a nanosecond before its neighbor ends."""
    times = np.cumsum(np.random.default_rng(7).uniform(1e-9, 3e-8, 200)) + 1234.5
    trace = Trace(began=1234.0)
    trace.add(TraceSpan("launch", "stages", times[0], times[-1] - times[0], DEVICE))
    for began, ended in pairwise(times):
        trace.add(TraceSpan("stage", "stages", began, ended - began, DEVICE))
    data = trace.to_json()
    check_trace(data)
    assert {one["tid"] for one in data["traceEvents"] if one["ph"] == "X"} == {200}


def test_overlapping_spans_get_another_track() -> None:
    trace = Trace("a GPU", began=0.0)
    for began in (1.0, 1.5, 2.0):
        trace.add(TraceSpan("conv2d", "launches", began, 0.75, DEVICE))
    data = trace.to_json()
    check_trace(data)
    names = [one["args"]["name"] for one in data["traceEvents"] if one["name"] == "thread_name"]
    assert names == ["launches", "launches (2)"]


def test_flow_arrows_connect_host_and_launch() -> None:
    trace = Trace("a GPU", began=0.0)
    trace.add(TraceSpan("run", "main", 1.0, 1.0), TraceSpan("enqueue", "main", 1.1, 0.2))
    trace.add(TraceSpan("begin", "other", 1.05, 0.01))
    trace.add(TraceSpan("one_launch", "launches", 1.4, 0.5, DEVICE, put_in=1.2))
    # no host span encloses it
    trace.add(TraceSpan("one_launch", "launches", 2.4, 0.5, DEVICE, put_in=2.2))
    # starts before it was enqueued
    trace.add(TraceSpan("one_launch", "launches", 0.9, 0.1, DEVICE, put_in=1.2))
    data = trace.to_json()
    check_trace(data)
    events = data["traceEvents"]
    (main,) = {one["tid"] for one in events if one["name"] == "enqueue"}
    (start,) = (one for one in events if one["ph"] == "s")
    (finish,) = (one for one in events if one["ph"] == "f")
    assert (start["tid"], start["ts"], finish["ts"]) == (main, 1.2e6, 1.4e6)


def test_clock_offset_satisfies_all_anchors() -> None:
    clock = DeviceClock()
    clock.anchor(3.0, earliest=103.0, latest=103.5)
    clock.anchor(5.0, earliest=105.2, latest=105.9)
    assert clock.offset == pytest.approx(100.35)


def test_launches_lie_between_enqueue_and_wait() -> None:
    """The driver does not report when a run was queued; it began after the enqueue."""
    graph = load_model(deep_onnx(), CompileOptions()).graph
    plan = plan_graph(graph, NULL_GPU, CompileOptions())
    count = len(plan.launches)
    spans = tuple((5.0 + number, 5.5 + number) for number in range(count))
    run = TracedRun((20.0, 20.1), ended=20.0 + count, launches=spans)
    result = device_spans(plan, [run])
    assert [one.name for one in result] == [launch.entry for launch in plan.launches]
    assert result[0].began == pytest.approx(20.25)
    assert result[-1].began + result[-1].seconds == pytest.approx(19.75 + count)


def test_launch_times_are_derived_from_stage_clocks() -> None:
    """The clock has a thousand ticks per second; the second run begins 20 s after the first."""
    clocks = StageClocks(StageClock("a timer", 1e3), (StageTitle("conv2d", "a"),), 1, 4, 0, True)
    plan = plan_graph(load_model(deep_onnx(), CompileOptions()).graph, NULL_GPU, CompileOptions())
    plan = replace(plan, launches=plan.launches[:1], clocks=clocks)
    notes = [np.array([[t, t, t + 500, t + 500, t + 490, t + 500, t + 500]]) for t in (1000, 21000)]
    runs = [
        TracedRun((50.0, 50.1), ended=50.7, notes=notes[0]),
        TracedRun((69.9, 70.1), ended=70.6, notes=notes[1]),
    ]
    result = device_spans(plan, runs)
    assert [one.track for one in result] == ["launches", "stages"] * 2
    assert [one.began for one in result] == pytest.approx([50.05, 50.05, 70.05, 70.05])
    assert [one.seconds for one in result] == pytest.approx([0.5] * 4)


@pytest.mark.parametrize("launches", ["list", "one"])
def test_traces_runs(
    device: DeviceInfo, launches: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOURFOLD_LAUNCHES", launches)
    check_runs(device, tmp_path)
    saved = json.loads((tmp_path / "out.json").read_text())
    assert sum(one["ph"] == "s" for one in saved["traceEvents"]) == 2  # one arrow per run


def test_traces_runs_with_cuda(cuda: DeviceInfo, tmp_path: Path) -> None:
    check_runs(cuda, tmp_path)


def check_runs(device: DeviceInfo, folder: Path) -> None:
    with Session(deep_onnx(), device, cache=None) as session:
        expected = session.run(IMAGE)
        with session.trace(folder / "out.json", opening=True) as trace:
            results = [session.run(IMAGE) for _ in range(2)]
        plan = session.plan
        results.append(session.run(IMAGE))
    for result in results:
        for name, array in expected.items():
            np.testing.assert_array_equal(result[name], array)
    spans = trace.spans
    assert {"read", "lower", "build"} <= {one.name for one in spans}
    runs = spans_named(spans, "run")
    assert [run.details["number"] for run in runs] == [0, 1]
    for run in runs:
        parts = {one.name for one in spans if one.process == HOST and is_within(one, run)}
        assert parts >= PARTS
    played = [one for one in spans if one.track == "launches"]
    assert [one.name for one in played] == [launch.entry for launch in plan.launches] * 2
    stages = [one for one in spans if one.track == "stages"]
    assert len(stages) == (2 * plan.stages if plan.stages > len(plan.launches) else 0)
    saved = json.loads((folder / "out.json").read_text())
    check_trace(saved)
    opening = spans_named(spans, "opening")[0]
    assert all(
        is_within(spans_named(spans, name)[0], opening) for name in ("read", "lower", "build")
    )
    assert len([one for one in saved["traceEvents"] if one["ph"] == "X"]) == len(spans)


def test_traces_runs_in_flight(device: DeviceInfo) -> None:
    with Session(deep_onnx(), device, cache=None) as session:
        (name,) = expected = session.run(IMAGE)
        with session.trace() as trace:
            futures = [session.run_async(IMAGE) for _ in range(3)]
            results = [future.result() for future in futures]
            results += session.stream([IMAGE] * 4)
        launches = len(session.plan.launches)
    assert all(np.array_equal(result[name], expected[name]) for result in results)
    check_trace(trace.to_json())
    flights = [one for one in trace.spans if one.in_flight]
    assert sorted(one.details["number"] for one in flights) == list(range(7))
    played = [one for one in trace.spans if one.track == "launches"]
    # others share a queue without timestamps
    has_times = device.api == "cuda" or not device.resident
    assert len(played) == (7 * launches if has_times else 0)
    threads = {one.track for one in spans_named(trace.spans, "wait")}
    assert any(name.startswith("fourfold-results") for name in threads)


def test_traces_parts_of_a_model(device: DeviceInfo) -> None:
    x = np.arange(5, dtype=np.float32)[None]
    with Session(split_model(), device, cache=None, placement="gpu") as session:
        with session.trace() as trace:
            traced = session.run(x)
        np.testing.assert_array_equal(traced["y"], session.run(x)["y"])
    check_trace(trace.to_json())
    (run,) = spans_named(trace.spans, "run")
    parts = [one for one in trace.spans if one.name.startswith("part on")]
    assert len(parts) == 3
    assert all(is_within(one, run) for one in parts)
    assert [one for one in trace.spans if one.track == "launches"]


def test_tracing_preserves_states(device: DeviceInfo) -> None:
    """Runs during and after a trace continue from the states before it."""
    steps = np.random.default_rng(5).uniform(-1, 1, (4, 1, 2, 5)).astype(np.float32)
    with Session(stream(), device, cache=None) as session:
        expected = [session.run(step)["y"] for step in steps]
        session.reset()
        outputs = [session.run(steps[0])["y"]]
        with session.trace():
            outputs += [session.run(step)["y"] for step in steps[1:3]]
        outputs.append(session.run(steps[3])["y"])
    np.testing.assert_array_equal(outputs, expected)


def test_traces_models_on_the_cpu(tmp_path: Path) -> None:
    x = np.arange(5, dtype=np.float32)[None]
    with Session(split_model(), "cpu", cache=None) as session:
        with session.trace() as trace:
            session.run(x)
        assert session.run(x)
    assert len(spans_named(trace.spans, "run")) == 1


def test_error_during_a_trace_leaves_the_session_usable(device: DeviceInfo) -> None:
    with Session(deep_onnx(), device, cache=None) as session:
        expected = session.run(IMAGE)
        with suppress(ZeroDivisionError), session.trace():
            session.run(IMAGE)
            raise ZeroDivisionError
        for name, array in session.run(IMAGE).items():
            np.testing.assert_array_equal(array, expected[name])
