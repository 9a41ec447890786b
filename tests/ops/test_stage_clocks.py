"""Stages of one launch record their times and are bit-equal with and without clocks."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from ops.test_one_launch import BRANCHES, NETWORK, inputs_of, joins
from random_graphs import build
from small_networks import deep_onnx

from fourfold import Session
from fourfold.backends import backend_of, make_player
from fourfold.codegen.context import KernelOptions
from fourfold.compiler.lower import make_plan
from fourfold.compiler.rewrite import rewrite
from fourfold.device import DeviceInfo
from fourfold.errors import BuildError
from fourfold.plan import Plan
from fourfold.runtime.stage_times import ClockSample, read_runs

IMAGE = np.random.default_rng(3).uniform(-1, 1, (1, 14, 14, 32)).astype(np.float32)


def plan_of(text: str, device: DeviceInfo, clocked: bool) -> Plan:
    options = KernelOptions("mixed", form="one", clocked=clocked)
    return make_plan(rewrite(build(text)), device, options)


def has_clock(device: DeviceInfo) -> None:
    joins(device)
    if plan_of(NETWORK, device, clocked=True).clocks is None:
        pytest.skip("kernels of this device have no clock")


@pytest.mark.parametrize("text", [NETWORK, BRANCHES])
def test_results_are_bit_equal_with_clocks(device: DeviceInfo, text: str) -> None:
    has_clock(device)
    plain = make_player(device, plan_of(text, device, clocked=False))
    clocked = backend_of(device).make_clocked_player(device, plan_of(text, device, clocked=True))
    assert clocked is not None
    clocks = clocked.plan.clocks
    assert plain.plan.clocks is None
    assert clocks is not None
    assert "notes" not in plain.plan.program.text
    assert len(clocks.stages) == plain.plan.stages == clocked.plan.stages
    samples = []
    for seed in range(20):
        arrays = inputs_of(build(text), seed)
        plain.poison()
        clocked.poison()
        for expected, result in zip(plain.run(arrays), clocked.run(arrays), strict=True):
            np.testing.assert_array_equal(result, expected)
        samples.append(ClockSample(seed * 1e-3, clocked.read_clocks()))  # type: ignore[attr-defined]
    starts = [one.start for one in read_runs(clocks, samples)]
    assert len(starts) == 20
    assert starts == sorted(set(starts)), "each run noted its own"


@pytest.fixture
def one_launch(device: DeviceInfo, monkeypatch: pytest.MonkeyPatch) -> None:
    joins(device)
    monkeypatch.setenv("FOURFOLD_LAUNCHES", "one")


def test_a_profile_shows_the_stages_of_the_run(device: DeviceInfo, one_launch: None) -> None:
    has_clock(device)
    with Session(deep_onnx(), device, cache=None) as session:
        assert len(session.plan.launches) == 1
        profile = session.profile(IMAGE, runs=3)
        assert profile.form == "stages"
        assert len(profile) == session.plan.stages
        assert any(one.node.startswith("layer4 = conv2d") for one in profile)
        assert profile.clock
        assert profile.clock_cost is not None
        assert profile.launch_seconds is not None
        for one, following in pairwise(profile):
            assert one.began is not None
            assert following.began == pytest.approx(one.began + one.seconds)
        assert all(one.seconds >= 0 and one.waiting >= 0 for one in profile)  # type: ignore[operator]
        assert profile.seconds > 0


def test_without_a_clock_the_plan_is_a_list(
    device: DeviceInfo, one_launch: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("opencl", "cuda"):
        clock = f"fourfold.codegen.{name}.language.PersistentKernel.stage_clock"
        monkeypatch.setattr(clock, lambda self, device: None)
    with Session(deep_onnx(), device, cache=None) as session:
        profile = session.profile(IMAGE, runs=1)
    assert (profile.form, profile.clock, profile.clock_cost) == ("list", "", None)
    assert len(profile) > 4
    assert all(one.waiting is None for one in profile)


def test_clocks_that_are_not_built_cost_no_profile(
    device: DeviceInfo, one_launch: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_clock(device)
    with Session(deep_onnx(), device, cache=None) as session:

        def refuse(device: DeviceInfo, plan: Plan) -> object:
            assert plan.clocks is not None
            raise BuildError("no kernel is built", "an unknown clock", plan.program.text)

        monkeypatch.setattr(backend_of(device), "make_clocked_player", refuse)
        assert session.profile(IMAGE, runs=1).form == "list"


def test_a_list_is_timed_unchanged(device: DeviceInfo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOURFOLD_LAUNCHES", "list")
    with Session(deep_onnx(), device, cache=None) as session:
        profile = session.profile(IMAGE, runs=1)
        assert (profile.form, len(profile)) == ("launches", len(session.plan.launches))
