"""Convolutions with pixels and weights copied ahead, against the references.

They run in the interpreter, as CUDA C on this machine's CPU, and on GPUs that support such copies.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from cuda_on_host import needs_compiler, play_on_host
from fake_cuda import FakeCuda
from halved_graphs import GRAPHS, compare, contexts_of, in_halves, numbers
from imagined_gpu import imagined_gpu
from interpreted_devices import NVIDIA

from fourfold.backends import find_device, make_player, probe
from fourfold.backends.cuda.architectures import max_local_memory
from fourfold.backends.cuda.boards import find_board
from fourfold.codegen.context import KernelOptions
from fourfold.codegen.cuda.dialect import CUDA
from fourfold.compiler.lower import make_plan, specialise
from fourfold.compiler.lower.kernels import choose_kernel
from fourfold.device import DeviceInfo
from fourfold.graph import Graph
from fourfold.ops.kernels.matrix.staged import StagedTile, staged_choices
from fourfold.plan import Plan

ROOMY = replace(NVIDIA, local_memory=48 << 10)
INTERPRETED = (ROOMY,)
LARGE = find_board("sm_89", units=1)
assert LARGE is not None
BOARD = replace(LARGE, asked_local_memory=0)
TILES = ("128x128 in 2", "64x64 in 3", "64x64 in 4", "64x128 in 2", "128x64 in 2")


def staged_plan(graph: Graph, device: DeviceInfo, tile: str, form: str = "list") -> Plan:
    """Return a plan in which every possible convolution copies ahead."""
    options = KernelOptions("mixed", form=form)
    found = contexts_of(graph, device, options)
    plan = make_plan(graph, device, options, {one.key: f"staged: {tile}" for one in found})
    assert "copy_ahead" in plan.program.text
    return plan


@pytest.fixture(autouse=True)
def _halves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Store small values as fp16, too."""
    monkeypatch.setattr(specialise, "MAX_FP32_ARENA_BYTES", -1)


def copies_by_itself(device: DeviceInfo) -> bool:
    return device.matrix_units and device.language in ("cuda", "tree")


@pytest.mark.devices(takes=copies_by_itself)
@pytest.mark.parametrize("form", ["list", "one"])
@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("title", GRAPHS)
def test_against_the_reference(title: str, tile: str, form: str, device: DeviceInfo) -> None:
    if form == "one" and not device.resident:
        pytest.skip("its groups cannot wait for each other")
    graph = in_halves(GRAPHS[title])
    given = numbers(graph)
    player = make_player(device, staged_plan(graph, device, tile, form))
    player.poison()
    result = player.run(list(given.values()))[0]
    player.close()
    compare(result, graph, given)


@needs_compiler
@pytest.mark.parametrize("form", ["list", "one"])
@pytest.mark.parametrize("tile", TILES[:2])
@pytest.mark.parametrize("title", GRAPHS)
def test_as_cuda_on_the_host(title: str, tile: str, form: str, tmp_path: Path) -> None:
    graph = in_halves(GRAPHS[title])
    given = numbers(graph)
    plan = staged_plan(graph, BOARD, tile, form)
    compare(play_on_host(plan, list(given.values()), tmp_path)[0], graph, given)


@needs_compiler
@pytest.mark.parametrize("form", ["list", "one"])
def test_launches_request_local_memory(form: str, tmp_path: Path) -> None:
    """A launch can request more local memory than a kernel can declare.

    The plan records the size, also in its stored form. One launch requests all that it needs,
    including the rows of its table.
    """
    graph = in_halves(GRAPHS["a window, more pixels than a group"])
    given = numbers(graph)
    plan = staged_plan(graph, LARGE, "128x128 in 4", form)
    (asked,) = [launch.local_bytes for launch in plan.launches if launch.local_bytes]
    tile = StagedTile(128, 128, 4).local_bytes
    assert tile > BOARD.local_memory
    assert asked == tile if form == "list" else tile < asked < tile + 1024
    assert plan.requirements.local_memory >= asked
    assert "of local memory" in " ".join(plan.requirements.unmet(BOARD))
    assert CUDA.launch_array in plan.program.text
    compare(play_on_host(plan, list(given.values()), tmp_path)[0], graph, given)
    small = staged_plan(graph, LARGE, "64x64 in 2", form)
    assert (CUDA.launch_array in small.program.text) == (form == "one")
    assert any(launch.local_bytes for launch in small.launches) == (form == "one")
    assert max(launch.local_bytes for launch in small.launches) < BOARD.local_memory


@needs_compiler
def test_a_launch_asks_the_driver() -> None:
    graph = in_halves(GRAPHS["few batches"])
    given = numbers(graph)
    with imagined_gpu(FakeCuda()) as driver:
        device = probe(find_device("cuda:0"))
        plan = staged_plan(
            graph, replace(device, asked_local_memory=LARGE.asked_local_memory), "128x128 in 4"
        )
        player = make_player(device, plan)
        compare(player.run(list(given.values()))[0], graph, given)
        player.close()
        del player  # while its driver exists
        assert list(driver.asked.values()) == [StagedTile(128, 128, 4).local_bytes]


def test_architectures_have_more_local_memory_than_kernels_declare() -> None:
    assert max_local_memory((9, 0)) == 227 << 10
    assert max_local_memory((8, 6)) == max_local_memory((12, 0)) == 99 << 10
    assert max_local_memory((99, 0)) == 48 << 10


def test_only_tuning_selects_it() -> None:
    graph = in_halves(GRAPHS["one tap"])
    last = contexts_of(graph, BOARD, KernelOptions("mixed"))[-1]
    assert str(choose_kernel(last, {})) == "matrix: default"
    assert str(choose_kernel(last, {last.key: "staged: 64x64 in 2"})) == "staged: 64x64 in 2"
    room = [StagedTile.parse(one) for one in staged_choices(last)]
    assert room
    assert all(one is not None and one.local_bytes <= BOARD.local_memory for one in room)
