"""The WebGPU backend with a fake library and with any available adapter: plans run correctly, setup
errors suggest a fix, and all resources are freed.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, repeat
from types import SimpleNamespace

import numpy as np
import pytest
from fake_webgpu import OUT_OF_MEMORY, VALIDATION, FakeWebGpu
from tiny_plan import COUNT, X, line
from webgpu_device import device as real_device
from webgpu_device import found, needs_webgpu

from fourfold.backends import Player, backends
from fourfold.backends.null import NULL_GPU
from fourfold.backends.probing import check_verdict
from fourfold.backends.webgpu import devices, probe, program
from fourfold.backends.webgpu.binding import adapter, calls, device, objects
from fourfold.backends.webgpu.binding.structures import Limits
from fourfold.backends.webgpu.devices import device_of
from fourfold.backends.webgpu.facts import device_info
from fourfold.backends.webgpu.probe import measure_units
from fourfold.codegen.wgsl import language, probes
from fourfold.device import LOOP_SELF_TEST, DeviceInfo
from fourfold.errors import BuildError, DeviceError, ModelError
from fourfold.plan import Buffer, BufferUse, Launch, Plan, Program, Requirements

LINE = """//# line r0 r1 w2
struct Sizes { x_at: i32, c_at: i32, y_at: i32, count: i32 }
@group(0) @binding(0) var<uniform> sizes: Sizes;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> c: array<f32>;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(1)
fn line(@builtin(global_invocation_id) id: vec3<u32>) {
  let i = i32(id.x);
  if (i < sizes.count) {
    y[sizes.y_at + i] = c[sizes.c_at] * x[sizes.x_at + i] + c[sizes.c_at + 1];
  }
}
"""
# Adds its input to a variable that persists between runs.
SUM = """//# sum r0 w1
struct Sizes { x_at: i32, y_at: i32, count: i32 }
@group(0) @binding(0) var<uniform> sizes: Sizes;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(1)
fn sum(@builtin(global_invocation_id) id: vec3<u32>) {
  let i = i32(id.x);
  y[sizes.y_at + i] = y[sizes.y_at + i] + x[sizes.x_at + i];
}
"""


def play_line(words: np.ndarray, bound: list[np.ndarray], groups: tuple[int, ...]) -> None:
    x, c, y = (one.view(np.float32) for one in bound)
    x_at, c_at, y_at, count = words[:4]
    assert groups == (COUNT, 1, 1)
    y[y_at : y_at + count] = c[c_at] * x[x_at : x_at + count] + c[c_at + 1]


def play_sum(words: np.ndarray, bound: list[np.ndarray], _groups: tuple[int, ...]) -> None:
    x, y = (one.view(np.float32) for one in bound)
    x_at, y_at, count = words[:3]
    y[y_at : y_at + count] += x[x_at : x_at + count]


KERNELS = {"line": play_line, "sum": play_sum}


def clear_caches() -> None:
    gc.collect()
    devices.found_devices.cache_clear()
    adapter._instance.cache_clear()
    program.layout_of.cache_clear()
    devices._opened.clear()


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeWebGpu]:
    """Install a fake library for one test."""
    clear_caches()
    result = FakeWebGpu(KERNELS)
    for module in (calls, adapter, device):
        monkeypatch.setattr(module, "library", lambda: result)
    for module in (calls, objects):
        monkeypatch.setattr(module, "quick_library", lambda: result)
    yield result
    clear_caches()


@pytest.fixture(params=["fake", "real"])
def info(request: pytest.FixtureRequest) -> DeviceInfo:
    """Return the adapter of the fake library or of this machine."""
    if request.param == "fake":
        request.getfixturevalue("fake")
        return devices.devices()[0]
    real, why = found()
    if real is None:
        pytest.skip(why)
    return real


def line_plan(a: float = 2.0, b: float = 1.0) -> Plan:
    return replace(line(a, b).plan, program=Program(LINE, ""))


def sum_plan() -> Plan:
    """Return a plan that accumulates its inputs."""
    plan = line_plan(1.0, 0.0)
    size = 4 * COUNT
    buffers = (*plan.buffers, Buffer("sum", "variable", size))
    add = Launch("sum", (BufferUse(2, 0), BufferUse(4, 0), COUNT), (COUNT,), (1,), "sum", "sum")
    show = plan.launches[0]._replace(
        arguments=(BufferUse(4, 0), BufferUse(1, 0), BufferUse(3, 0), COUNT)
    )
    text = Program(LINE + SUM, "")
    return replace(plan, program=text, buffers=buffers, launches=(add, show))


def open_plan(info: DeviceInfo, plan: Plan) -> Player:
    return backends()["webgpu"].make_player(info, plan)


def test_runs_a_plan(info: DeviceInfo) -> None:
    player = open_plan(info, line_plan())
    player.poison()
    for scale in (1, 3):
        (result,) = player.run([X * scale])
        np.testing.assert_array_equal(result, 2 * X * scale + 1)
    expected = np.full(COUNT, np.nan, np.float32)
    (result,) = player.run([-X], [expected])
    assert result is expected
    np.testing.assert_array_equal(expected, 1 - 2 * X)
    assert player.run([X], [None]) == [None]
    player.close()


def test_unwritten_outputs_stay_poisoned(info: DeviceInfo) -> None:
    plan = line_plan()
    half = plan.launches[0]._replace(arguments=(*plan.launches[0].arguments[:3], COUNT // 2))
    player = open_plan(info, replace(plan, launches=(half,)))
    player.poison()
    (result,) = player.run([X])
    np.testing.assert_array_equal(np.isnan(result), np.arange(COUNT) >= COUNT // 2)
    player.close()


def test_variables_persist_until_reset(info: DeviceInfo) -> None:
    player = open_plan(info, sum_plan())
    for times in (1, 2, 3):
        np.testing.assert_array_equal(player.run([X])[0], times * X)
    assert len(player.profile([X], runs=2)) == 2
    np.testing.assert_array_equal(player.run([X])[0], 4 * X)  # profiling left them as they were
    player.replay()
    np.testing.assert_array_equal(player.run([X])[0], 6 * X)
    player.reset()
    np.testing.assert_array_equal(player.run([X])[0], X)
    player.close()


def test_supports_runs_in_flight(info: DeviceInfo) -> None:
    player = open_plan(info, line_plan())
    slots = [player.open_slot() for _ in range(3)]
    for number, slot in enumerate(slots):
        assert slot is not None
        slot.begin([X + number])
    for number, slot in enumerate(slots):
        assert slot is not None
        np.testing.assert_array_equal(slot.end()[0], 2 * (X + number) + 1)
        assert slot.done
        slot.inputs[0][:] = 7
        slot.begin([None])
        np.testing.assert_array_equal(slot.end()[0], np.full(COUNT, 15))
        slot.close()
    player.close()


def test_binds_device_memory(info: DeviceInfo) -> None:
    backend = backends()["webgpu"]
    player = open_plan(info, line_plan())
    inputs, expected = (backend.make_memory(info, 4 * COUNT) for _ in range(2))
    inputs.write(X)
    assert player.run_bound([inputs], [expected]) == [expected]
    result = np.empty_like(X)
    expected.read(result)
    np.testing.assert_array_equal(result, 2 * X + 1)
    (again,) = player.run_bound([expected])
    np.testing.assert_array_equal(again, 4 * X + 3)
    assert backend.import_memory(info, inputs) is inputs
    assert backend.import_memory(info, X) is None
    player.close()


@needs_webgpu
def test_times_single_launches() -> None:
    info, plan = real_device(), line_plan()
    arena = plan.buffers[0]._replace(bytes=8 * COUNT)
    arguments = (BufferUse(0, 0), BufferUse(1, 0), BufferUse(0, COUNT), COUNT)
    text = LINE.replace("r0 r1 w2", "w0 r1").replace("binding(3)", "binding(1)")
    text = text.replace("var<storage, read> x", "var<storage, read_write> x")
    text = "\n".join(row for row in text.splitlines() if "> y" not in row).replace("y[", "x[")
    launch = plan.launches[0]._replace(arguments=arguments)
    plan = replace(plan, buffers=(arena, *plan.buffers[1:]), launches=(launch,))
    timer = backends()["webgpu"].make_timer(info, replace(plan, program=Program(text, "")))
    timer.fill(np.concatenate([X, X]))
    timer.blank(4 * COUNT, 4 * COUNT)
    assert np.isnan(timer.read(4 * COUNT, np.dtype(np.float32), COUNT)).all()
    assert timer.seconds(range(1), 2) >= 0
    result = timer.read(4 * COUNT, np.dtype(np.float32), COUNT)
    np.testing.assert_array_equal(result, 2 * X + 1)
    timer.close()


def test_reports_kernels_that_do_not_build(
    info: DeviceInfo, request: pytest.FixtureRequest
) -> None:
    text = Program(LINE.replace("let i", "let let"), "")
    if info.name == "Imagined GPU":
        failures = request.getfixturevalue("fake").failures
        failures["wgpuDeviceCreateShaderModule"] = (VALIDATION, "expected a name, error")
    player = open_plan(info, replace(line_plan(), program=text))
    for _ in range(2):  # the error is repeated
        with pytest.raises(BuildError) as caught:
            player.run([X])
    assert "error" in caught.value.log
    assert "let let" in caught.value.source
    player.close()


def test_rejects_programs_without_markers() -> None:
    with pytest.raises(ModelError, match="the program is damaged"):
        program.split_modules(Program("//# line x0\nfn line() {}", ""))
    assert program.split_modules(Program("", "")) == {}
    assert program.MARK == language.MARK


def test_reopens_a_lost_device(fake: FakeWebGpu) -> None:
    info = devices.devices()[0]
    player = open_plan(info, line_plan())
    player.run([X])
    fake.lose()
    with pytest.raises(DeviceError, match="was lost while running") as caught:
        player.run([X])
    assert caught.value.why == "it fell off the bus"
    assert "open a new one" in caught.value.fix
    player.close()
    again = open_plan(info, line_plan())
    np.testing.assert_array_equal(again.run([X])[0], 2 * X + 1)
    again.close()


@needs_webgpu
def test_reopens_a_lost_device_of_this_machine() -> None:
    real = real_device()
    player = open_plan(real, line_plan())
    player.run([X])
    device_of(real).destroy()
    with pytest.raises(DeviceError, match="was lost while running"):
        player.run([X])
    player.close()
    again = open_plan(real, line_plan())
    np.testing.assert_array_equal(again.run([X])[0], 2 * X + 1)
    again.close()


@pytest.mark.parametrize(
    ("function", "kind", "words"),
    [
        ("wgpuDeviceCreateBuffer", OUT_OF_MEMORY, "out of memory while making the plan ready"),
        ("wgpuDeviceCreateBindGroup", VALIDATION, "failed while making the plan ready"),
        ("wgpuDeviceCreateBuffer", VALIDATION, "failed while making the plan ready"),
    ],
)
def test_failed_opening_frees_all_resources(
    function: str, kind: int, words: str, fake: FakeWebGpu
) -> None:
    info = devices.devices()[0]
    open_plan(info, line_plan()).close()  # layouts stay cached
    before = len(fake.of_kind(np.ndarray))
    fake.failures[function] = (kind, "no, thanks")
    with pytest.raises(DeviceError, match=words) as caught:
        open_plan(info, line_plan())
    assert caught.value.fix
    fake.failures.clear()
    gc.collect()
    assert len(fake.of_kind(np.ndarray)) == before


def test_failed_run_leaves_the_player_usable(fake: FakeWebGpu) -> None:
    player = open_plan(devices.devices()[0], line_plan())
    for function in ("wgpuCommandEncoderFinish", "wgpuQueueSubmitForIndex", "wgpuBufferMapAsync"):
        fake.failures[function] = (VALIDATION, "not now")
        with pytest.raises(DeviceError, match="failed while running the model"):
            player.run([X])
        fake.failures.clear()
        np.testing.assert_array_equal(player.run([X])[0], 2 * X + 1)
    player.close()


def test_close_frees_all_resources(fake: FakeWebGpu) -> None:
    info = devices.devices()[0]
    first = open_plan(info, line_plan())
    first.run([X])
    first.close()
    del first
    gc.collect()
    before = dict(fake.held)
    player = open_plan(info, line_plan(3.0))
    slot = player.open_slot()
    assert slot is not None
    slot.begin([X])
    slot.close()
    player.profile([X], 2)
    player.run([X])
    player.close()
    del player, slot
    gc.collect()
    assert fake.held == before


def test_equal_modules_are_built_once(fake: FakeWebGpu) -> None:
    info = devices.devices()[0]
    players = [open_plan(info, line_plan(a)) for a in (2.0, 5.0)]
    for player, a in zip(players, (2.0, 5.0), strict=True):
        np.testing.assert_array_equal(player.run([X])[0], a * X + 1)
    assert len([one for one in fake.of_kind(tuple) if one[0] == "line"]) == 1
    for player in players:
        player.close()


def test_equal_constants_are_uploaded_once(fake: FakeWebGpu) -> None:
    info, plan = devices.devices()[0], line_plan()
    first = open_plan(info, plan)
    before = len(fake.of_kind(np.ndarray))
    second = open_plan(info, plan)
    own = ("arena", "x", "y", "words", "staging in", "staging out")
    assert len(fake.of_kind(np.ndarray)) == before + len(own)
    first.close()
    np.testing.assert_array_equal(second.run([X])[0], 2 * X + 1)
    second.close()
    other = open_plan(info, line_plan(7.0))
    np.testing.assert_array_equal(other.run([X])[0], 7 * X + 1)
    other.close()


def test_first_run_starts_before_the_last_pipeline_is_ready(fake: FakeWebGpu) -> None:
    player = open_plan(devices.devices()[0], sum_plan())
    launches = player._flight.launches  # type: ignore[attr-defined]
    late = launches._modules["line"]
    is_made = late.pipeline

    def wait() -> object:
        assert fake.launched == ["sum"]  # it was put in without waiting
        return is_made()

    is_made()
    launches._modules["line"] = SimpleNamespace(ready=False, pipeline=wait)
    np.testing.assert_array_equal(player.run([X])[0], X)
    launches._modules["line"] = late
    fake.submitted = 0
    np.testing.assert_array_equal(player.run([X])[0], 2 * X)
    assert fake.submitted == 1
    player.close()


@pytest.mark.parametrize("units", [1, 7, 132, 5000])
@pytest.mark.parametrize("idle", [0.0, 0.35])
def test_measures_units_by_timing_groups(
    units: int, idle: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A single group may leave part of its unit idle, which a second group then uses."""

    clock = chain([0.3, 0.5], repeat(1.0))  # slow until the clock ramps up

    class Timer:
        """A device with a number of units."""

        def __init__(self, _info: DeviceInfo, plan: Plan) -> None:
            self._launches = plan.launches

        def seconds(self, launches: range, _runs: int) -> float:
            (launch,) = (self._launches[number] for number in launches)
            assert isinstance(launch.arguments[1], int)
            rounds = -(-launch.grid[0] // probes.BUSY_GROUP // units)
            return 1e-7 * launch.arguments[1] * max(1.0, (1 - idle) * rounds) / next(clock)

        def close(self) -> None:
            pass

    info = backends()["webgpu"].find_board("any", None)
    assert info is not None
    monkeypatch.setattr("fourfold.backends.webgpu.probe.LaunchTimer", Timer)
    result = measure_units(info)
    assert result == units if units < 4096 else result in range(2048, 4096)


def test_reads_facts_of_an_adapter(fake: FakeWebGpu) -> None:
    (info,) = backends()["webgpu"].devices()
    assert (info.api, info.language, info.address) == ("webgpu", "wgsl", "webgpu:0")
    assert (info.name, info.platform, info.kind) == ("Imagined GPU", "Vulkan", "other")
    assert (info.max_allocation, info.local_memory) == ((1 << 20) - 4, 16384)
    assert info.units == 0
    assert fake.held  # nothing was opened on the machine itself


def test_generic_targets_can_be_prepared_for() -> None:
    board = backends()["webgpu"].find_board("any", 20)
    assert board is not None
    assert (board.present, board.units, board.max_work_group) == (False, 20, 256)
    software = backends()["webgpu"].find_board("software", None)
    assert software is not None
    assert (software.present, software.kind, software.local_memory) == (False, "other", 0)
    assert backends()["webgpu"].build_binary(board, Program(LINE, "")) == b""
    with pytest.raises(DeviceError, match="is not attached"):
        device_of(board)


@needs_webgpu
def test_self_test_names_the_failed_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """Covers kernels that do not build and kernels that compute something else."""
    before = probe.probe(real_device(), ["self_test"])["self_test"]
    assert str(before) in ("", LOOP_SELF_TEST)
    for name in ("floats", "halves", "bytes"):
        good = probes.SELF_TEST[name].text
        other = good.replace("3.0f", "2.0f").replace("3u", "2u")
        for text in (f"{good} this is no kernel", other):
            with monkeypatch.context() as spoiled:
                spoiled.setitem(probes.SELF_TEST, name, Program(text, ""))
                wrong = str(probe.probe(real_device(), ["self_test"])["self_test"])
                assert wrong.split(", ")[0] == name


@needs_webgpu
def test_probes_fp16_arithmetic(monkeypatch: pytest.MonkeyPatch) -> None:
    info = real_device()
    assert probe.probe(info, ["half_arithmetic"])["half_arithmetic"] == info.half_arithmetic
    text = probes.HALF_ARITHMETIC.text.replace("3.0h", "2.0h")
    monkeypatch.setattr(probes, "HALF_ARITHMETIC", Program(text, ""))
    assert probe.probe(info, ["half_arithmetic"])["half_arithmetic"] is False
    unclaimed = replace(info, claims={})
    assert probe.probe(unclaimed, ["half_arithmetic"])["half_arithmetic"] is False


def test_logs_devices_that_stop_long_loops(caplog: pytest.LogCaptureFixture) -> None:
    info = replace(NULL_GPU, name="a renderer", probed=("self_test",), self_test=LOOP_SELF_TEST)
    with caplog.at_level("WARNING"):
        check_verdict(info, "fp32")
    assert "a renderer: a self-test kernel with a long loop stops" in caplog.text


def test_rejects_loops_that_are_too_long_for_a_device() -> None:
    info = replace(NULL_GPU, name="a renderer", probed=("self_test",), self_test=LOOP_SELF_TEST)
    with pytest.raises(DeviceError, match="a renderer cannot run this model") as caught:
        check_verdict(info, "fp32", 70000)
    assert "work-items of this model need 70000" in str(caught.value)
    needs = Requirements(loop_rounds=70000)
    assert needs.unmet(info) == ("its loops have 70000 iterations, and the device aborts them",)
    assert not needs.unmet(NULL_GPU)


def test_buffer_size_is_limited_to_32_bit_indices() -> None:
    limits = Limits(maxBufferSize=1 << 40, maxStorageBufferBindingSize=(1 << 32) - 1)
    adapter_ = adapter.Adapter(0, "a GPU", "", "", "Vulkan", 1, 0x10DE, frozenset(), limits)
    info = device_info(adapter_, 3, "wgpu-native 29.0.1")
    assert info.max_allocation == 2**31 - 4
    assert (info.kind, info.vendor, info.unified_memory) == ("gpu", "NVIDIA", False)
    assert info.address == "webgpu:3"
