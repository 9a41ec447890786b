"""The CUDA backend with a fake driver: setup errors suggest a fix, and plans run correctly."""

from __future__ import annotations

import gc
import platform
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cuda_on_host import HostKernels, needs_compiler
from fake_cuda import FakeCuda
from imagined_gpu import forget_drivers, installed
from op_trials import TOLERANCE, trial
from random_graphs import build

from fourfold.backends import Player, backends, determine_facts, find_device, find_target
from fourfold.backends.cuda import devices as found
from fourfold.backends.cuda import driver as driver_file
from fourfold.backends.cuda import nvrtc, program
from fourfold.backends.cuda.binding import calls
from fourfold.backends.cuda.boards import BOARDS, find_board
from fourfold.backends.cuda.image import Image, unpack
from fourfold.backends.cuda.traced import ClockedPlayer
from fourfold.codegen.context import KernelOptions
from fourfold.compiler.lower import make_plan
from fourfold.compiler.rewrite import rewrite
from fourfold.device import PROBED, DeviceInfo
from fourfold.errors import DeviceError, InputError
from fourfold.ops.base import registry
from fourfold.plan import Plan
from fourfold.runtime.stage_times import read_notes
from fourfold.store.keys import loadable_parts, program_parts

IMAGE = Image("sm_90", "NVRTC 13.0", b"code", b"ptx")
Install = Callable[[FakeCuda], FakeCuda]


@pytest.fixture
def install() -> Iterator[Install]:
    """Return a function that installs a fake driver for one test."""
    with ExitStack() as held:
        yield lambda driver: held.enter_context(installed(driver))


def absent() -> None:
    raise OSError("libcuda.so.1: cannot open shared object file")


def test_error_without_a_driver_suggests_a_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_drivers()
    monkeypatch.setattr(calls, "library", absent)
    with pytest.raises(DeviceError, match="driver is not installed") as caught:
        find_device("cuda:0")
    assert "libcuda" in caught.value.why
    assert "install NVIDIA's driver" in caught.value.fix


def test_backend_is_listed_when_its_driver_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "library", lambda: pytest.fail("the driver was called"))
    monkeypatch.setattr(driver_file, "library_name", absent)
    assert not backends()["cuda"].listed
    monkeypatch.setattr(driver_file, "library_name", lambda: "libcuda.so.1")
    assert backends()["cuda"].listed


@pytest.mark.parametrize(
    ("driver", "failures", "words"),
    [
        (FakeCuda(version=11000), {}, ("too old", "CUDA 11.0", "update NVIDIA's driver")),
        (FakeCuda(capability=(6, 1)), {}, ("new enough", "sm_61", "opencl:0")),
        (FakeCuda(count=0), {"cuInit": 100}, ("no CUDA device", "cuInit", "nvidia-smi")),
        (FakeCuda(), {"cuInit": 803}, ("does not start", "do not match", "reboot")),
    ],
)
def test_setup_errors_suggest_a_fix(
    driver: FakeCuda, failures: dict[str, int], words: tuple[str, ...], install: Install
) -> None:
    install(driver).failures.update(failures)
    with pytest.raises(DeviceError) as caught:
        find_device("cuda")
    for part, word in zip(
        (caught.value.what, caught.value.why, caught.value.fix), words, strict=True
    ):
        assert word in part


def test_facts_follow_from_the_architecture(install: Install) -> None:
    install(FakeCuda(capability=(8, 6), units=28))
    device = determine_facts(find_device("cuda:0"), PROBED)
    assert (device.name, device.compute_units, device.api) == ("Imagined GPU", 28, "cuda")
    assert (device.language, device.language_version) == ("cuda", "8.6")
    assert device.architectures == ("sm_86", "sm_80", "sm_75")
    assert device.matrix_units
    assert device.resident
    assert device.reaches_host == (platform.machine() in ("x86_64", "AMD64"))


@pytest.mark.parametrize("reaches", [False, True])
def test_the_driver_says_whether_kernels_take_any_address(install: Install, reaches: bool) -> None:
    install(FakeCuda(reaches_pageable=reaches, units=40 + reaches))  # facts belong to a device
    device = determine_facts(find_device("cuda:0"), PROBED)
    assert device.host_pointers == reaches


def test_older_gpus_lack_newer_features(install: Install) -> None:
    install(FakeCuda(capability=(7, 5)))
    device = determine_facts(find_device("cuda:0"), PROBED)
    assert (device.matrix_units, device.resident, device.reaches_host) == (False, False, False)


class PlanCase:
    """An op's cases as a plan for the fake GPU, with the plan's kernels."""

    def __init__(
        self,
        driver: FakeCuda,
        folder: Path,
        op: str = "softmax",
        limit: int | None = None,
        form: str = "list",
        clocked: bool = False,
    ) -> None:
        """Create the plan; `limit` is the maximum allocation of the GPU if lower than reported."""
        self.device = determine_facts(find_device("cuda:0"), PROBED)
        self.item = trial(registry()[op])
        small = replace(self.device, max_allocation=limit or self.device.max_allocation)
        options = KernelOptions(form=form, clocked=clocked)
        self.plan: Plan = make_plan(rewrite(self.item.graph), small, options)
        driver.images[IMAGE.cubin] = HostKernels(self.plan.program, folder)

    def open(self) -> Player:
        backend = backends()["cuda"]
        result = backend.load_program(self.device, self.plan.program, IMAGE.pack())
        return backend.make_player(self.device, self.plan, result)


@needs_compiler
def test_plan_runs_as_one_graph(install: Install, tmp_path: Path) -> None:
    driver = install(FakeCuda())
    case = PlanCase(driver, tmp_path)
    player = case.open()
    player.poison()
    for _ in range(2):
        driver.launched.clear()
        results = player.run(case.item.inputs)
        assert driver.launched == [launch.entry for launch in case.plan.launches]
        case.item.check(results, TOLERANCE["fp32"])
    inputs = [np.empty_like(results[0]), *[None] * (len(results) - 1)]
    again = player.run(case.item.inputs, inputs)
    assert again[0] is inputs[0]
    assert again[1:] == inputs[1:]
    np.testing.assert_array_equal(inputs[0], results[0])
    assert player.profile(case.item.inputs, 1) == pytest.approx([2e-3] * len(case.plan.launches))
    assert unpack(player.binary()) == IMAGE
    player.close()
    assert driver.held == {}
    assert driver.contexts == 0


@needs_compiler
@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="hosts of another kind")
def test_one_launch_fetches_inputs_from_the_host(install: Install, tmp_path: Path) -> None:
    """The fake GPU finishes at once, with the inputs of the previous run."""
    driver = install(FakeCuda())
    case = PlanCase(driver, tmp_path, form="one")
    assert case.plan.requirements.reaches_host
    player = case.open()
    player.run(case.item.inputs)
    results = player.run(case.item.inputs)
    assert driver.launched == [case.plan.launches[0].entry] * 2
    case.item.check(results, TOLERANCE["fp32"])
    assert player.profile(case.item.inputs, 1) == pytest.approx([2e-3])
    player.close()
    assert driver.held == {}


@needs_compiler
def test_stages_record_clock_readings(install: Install, tmp_path: Path) -> None:
    """The fake GPU's clock counts nanoseconds, and a unit's counter two ticks for each."""
    case = PlanCase(install(FakeCuda()), tmp_path, form="one", clocked=True)
    clocks = case.plan.clocks
    assert clocks is not None
    result = program.load_binary(case.device, IMAGE.pack())
    player = ClockedPlayer(case.device, case.plan, result)
    player.profile(case.item.inputs, 1)
    (row,) = notes = player.read_clocks()
    assert notes.shape == (1, 4 + 3 * case.plan.stages)
    assert 0 < row[0] < row[2]
    assert row[3] - row[1] == pytest.approx(2 * (row[2] - row[0]), rel=0.5)
    ended = [row[1], *row[6::3], row[3]]
    assert ended == sorted(ended)
    times = read_notes(clocks, notes, 1e9)
    assert times is not None
    assert {"fetch", "softmax"} <= {title.kernel for title in times.stages}
    assert 0 < times.total <= (row[2] - row[0]) * 1e-9
    results = player.run(case.item.inputs)
    case.item.check(results, TOLERANCE["fp32"])
    assert player.read_clocks()[0, 0] > row[0]
    player.close()


@needs_compiler
def test_constants_may_be_split_into_several_buffers(install: Install, tmp_path: Path) -> None:
    driver = install(FakeCuda())
    case = PlanCase(driver, tmp_path, "fully_connected", limit=4096)
    assert sum(buffer.kind == "constants" for buffer in case.plan.buffers) > 1
    player = case.open()
    results = player.run(case.item.inputs)
    case.item.check(results, TOLERANCE["fp32"])
    player.close()
    assert driver.held == {}


@needs_compiler
def test_reads_and_writes_device_memory(install: Install, tmp_path: Path) -> None:
    driver = install(FakeCuda())
    case, backend = PlanCase(driver, tmp_path), backends()["cuda"]
    player, (first, *others) = case.open(), case.item.inputs
    expected = player.run(case.item.inputs)[0]
    source = backend.make_memory(case.device, first.nbytes)
    target = backend.make_memory(case.device, expected.nbytes)
    assert backend.import_memory(case.device, source) is source
    assert backend.import_memory(case.device, first) is None
    source.write(first)
    results = player.run_bound([source, *others], [target, *[None] * (len(case.plan.outputs) - 1)])
    assert results[0] is target
    result = np.full_like(expected, np.nan)
    target.read(result)
    np.testing.assert_array_equal(result, expected)
    player.close()
    del source, target, results
    gc.collect()
    assert driver.held == {}


@needs_compiler
@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="hosts of another kind")
def test_inputs_on_the_device_are_not_fetched_from_the_host(
    install: Install, tmp_path: Path
) -> None:
    """Stale values in host memory must not matter."""
    driver = install(FakeCuda())
    case, backend = PlanCase(driver, tmp_path, form="one"), backends()["cuda"]
    assert case.plan.on_device is not None
    player, inputs = case.open(), case.item.inputs
    arguments = [backend.make_memory(case.device, one.nbytes) for one in inputs]
    for memory, array in zip(arguments, inputs, strict=True):
        memory.write(array)
    others = [np.full_like(one, 7) for one in inputs]
    player.run(others)
    player.run(others)  # the fake GPU finishes with the previous inputs
    for _ in range(3):  # direct launch, capture, and graph replay
        case.item.check(player.run_bound(arguments), TOLERANCE["fp32"])
    mixed = player.run_bound([arguments[0], *inputs[1:]])  # some inputs are fetched from the host
    mixed = player.run_bound([arguments[0], *inputs[1:]])
    case.item.check(mixed, TOLERANCE["fp32"])
    player.run(inputs)
    case.item.check(player.run(inputs), TOLERANCE["fp32"])
    player.close()
    del arguments, memory
    gc.collect()
    assert driver.held == {}


@needs_compiler
@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="hosts of another kind")
def test_nothing_is_written_beyond_an_output(install: Install, tmp_path: Path) -> None:
    """Kernels write whole vectors, and the caller's memory may continue behind the output."""
    driver = install(FakeCuda())
    device = determine_facts(find_device("cuda:0"), PROBED)
    graph = build("input x: f32[1,7,5,1]\na = relu(x)\nb = softmax(a)\nc = mul(b, a)\noutput b, c")
    plan = make_plan(rewrite(graph), device, KernelOptions(form="one"))
    assert "deliver" in plan.program.text
    driver.images[IMAGE.cubin] = HostKernels(plan.program, tmp_path)
    backend = backends()["cuda"]
    created = backend.load_program(device, plan.program, IMAGE.pack())
    player = backend.make_player(device, plan, created)
    size = plan.outputs[0].type.bytes
    assert size % 16
    source = backend.make_memory(device, plan.inputs[0].type.bytes)
    source.write(np.linspace(-1, 1, 35, dtype=np.float32))
    target = backend.make_memory(device, size + 64)
    target.write(np.full(size + 64, 0xAB, np.uint8))
    player.run_bound([source], [target, None])
    result = np.zeros(size + 64, np.uint8)
    target.read(result)
    assert (result[:size].view(np.float32) == 1).all()  # softmax of one class
    assert (result[size:] == 0xAB).all()
    player.close()
    del source, target
    gc.collect()


@needs_compiler
def test_rejects_more_groups_than_can_be_resident(install: Install, tmp_path: Path) -> None:
    driver = install(FakeCuda(units=2))
    case = PlanCase(driver, tmp_path, form="one")
    driver.resident = 0
    with pytest.raises(DeviceError, match="one launch") as caught:
        case.open()
    assert "FOURFOLD_LAUNCHES=list" in caught.value.fix
    assert driver.held == {}


@needs_compiler
def test_collected_player_frees_all_driver_objects(install: Install, tmp_path: Path) -> None:
    driver = install(FakeCuda())
    case = PlanCase(driver, tmp_path)
    player = case.open()
    assert driver.held
    del player
    gc.collect()
    assert driver.held == {}


@needs_compiler
def test_out_of_memory_frees_all_driver_objects(install: Install, tmp_path: Path) -> None:
    driver = install(FakeCuda())
    case = PlanCase(driver, tmp_path)
    driver.memory = sum(buffer.bytes for buffer in case.plan.buffers) // 2
    with pytest.raises(DeviceError, match="out of memory") as caught:
        case.open()
    assert "close other sessions" in caught.value.fix
    assert driver.held == {}
    assert driver.contexts == 0


@needs_compiler
def test_reports_a_lost_device(install: Install, tmp_path: Path) -> None:
    driver = install(FakeCuda())
    case = PlanCase(driver, tmp_path)
    player = case.open()
    driver.failures["cuStreamSynchronize"] = 719
    with pytest.raises(DeviceError, match="lost while running") as caught:
        player.run(case.item.inputs)
    assert "create a new Session" in caught.value.fix
    driver.failures.clear()
    with pytest.raises(DeviceError, match="the context was destroyed"):
        player.run(case.item.inputs)
    before = dict(driver.held)
    player.close()
    assert driver.held.keys() == before.keys(), "freed addresses may belong to other objects now"
    again = case.open()
    case.item.check(again.run(case.item.inputs), TOLERANCE["fp32"])
    again.close()
    assert driver.contexts == 0


@pytest.mark.parametrize(
    ("function", "status", "word"),
    [
        ("cuModuleLoadData", 700, "lost while loading the kernels"),
        ("cuModuleLoadData", 220, "lost while loading the kernels"),
        ("cuModuleLoadData", 226, "lost while loading the kernels"),
        ("cuModuleLoadData", 2, "out of memory while loading the kernels"),
        ("cuDevicePrimaryCtxRetain", 46, "cannot be opened"),
        ("cuStreamCreate", 719, "lost while making the plan ready"),
        ("cuMemHostAlloc", 2, "out of memory while making the plan ready"),
    ],
)
@needs_compiler
def test_driver_errors_are_reported_and_recoverable(
    install: Install, tmp_path: Path, function: str, status: int, word: str
) -> None:
    driver = install(FakeCuda())
    case = PlanCase(driver, tmp_path)
    driver.failures[function] = status
    with pytest.raises(DeviceError, match=word):
        case.open()
    driver.failures.clear()
    case.open().close()
    assert driver.contexts == 0


def test_reports_a_gpu_in_exclusive_use(install: Install) -> None:
    install(FakeCuda()).failures["cuDevicePrimaryCtxRetain"] = 46
    with pytest.raises(DeviceError, match="cannot be opened") as caught:
        found.context_of(find_device("cuda:0"))
    assert "unavailable" in caught.value.why
    assert "nvidia-smi -c DEFAULT" in caught.value.fix


@needs_compiler
def test_lost_device_shared_with_other_libraries_needs_a_restart(
    install: Install, tmp_path: Path
) -> None:
    """The primary context is shared with libraries such as PyTorch, and only they can
    release it.
    """
    driver = install(FakeCuda())
    case = PlanCase(driver, tmp_path)
    player, driver.others = case.open(), 1
    driver.failures["cuStreamSynchronize"] = 700
    with pytest.raises(DeviceError, match="other libraries") as caught:
        player.run(case.item.inputs)
    assert caught.value.fix == "restart the process"


@pytest.mark.parametrize("binary", [b"", b"\x7fELF", IMAGE._replace(cubin=b"other").pack()])
def test_ignores_binaries_that_cannot_be_loaded(binary: bytes, install: Install) -> None:
    install(FakeCuda())
    device = find_device("cuda:0")
    assert program.load_binary(device, binary) is None


def board(name: str, units: int | None = None) -> DeviceInfo:
    result = find_board(name, units)
    assert result is not None
    return result


def test_binaries_are_found_by_architecture(install: Install) -> None:
    """The GPU model and driver do not matter; binaries for older architectures follow."""
    install(FakeCuda(capability=(8, 9)))
    device, graph = find_device("cuda:0"), rewrite(trial(registry()["relu"]).graph)
    plan = make_plan(graph, board("sm_86"), KernelOptions())
    keys = loadable_parts(plan.program, device)
    assert keys[0] == program_parts(plan.program, board("sm_89"))
    assert program_parts(plan.program, board("sm_86")) in keys
    assert program_parts(plan.program, board("sm_90")) not in keys


@pytest.mark.parametrize("name", BOARDS)
def test_finds_target_architectures(name: str) -> None:
    result = find_target(f"cuda:{name}")
    assert result.architectures == (name,)
    assert result.probed == PROBED
    assert not result.present
    assert result.matrix_units == (name != "sm_75")
    assert find_target(f"cuda:{name}", 5).compute_units == 5


def test_error_for_an_unknown_architecture_lists_known_ones() -> None:
    with pytest.raises(InputError, match="sm_87") as caught:
        find_target("cuda:sm_86x".replace("x", "0"))
    assert "cuda:sm_" in caught.value.fix


def test_rejects_units_for_attached_devices() -> None:
    with pytest.raises(InputError, match="units"):
        find_target("auto", 8)


def test_rejects_running_on_a_device_that_is_not_attached() -> None:
    forget_drivers()
    with pytest.raises(DeviceError, match="not attached"):
        found.context_of(board("sm_87"))


def test_error_without_nvrtc_contains_the_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    nvrtc.libraries.cache_clear()
    monkeypatch.setattr(nvrtc, "_candidates", lambda: iter(["/nowhere/libnvrtc.so.13"]))
    with pytest.raises(DeviceError, match="NVRTC cannot be loaded") as caught:
        backends()["cuda"].build_binary(board("sm_87"), plan_program())
    assert "pip install fourfold[cuda]" in caught.value.fix
    nvrtc.libraries.cache_clear()


def plan_program() -> program.Program:
    return program.Program("", "")


def test_keys_of_devices_without_architectures_use_the_driver() -> None:
    device = replace(board("sm_87"), architectures=())
    assert program_parts(plan_program(), device)["driver"] == "any"
