"""Convolutions with warpgroups, against the references.

They run in the interpreter, as CUDA C on this machine's CPU, and on GPUs with warpgroups.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from cuda_on_host import needs_compiler, play_on_host
from halved_graphs import GRAPHS, compare, contexts_of, in_halves, numbers
from interpreted_devices import NVIDIA
from random_graphs import build

from fourfold.backends import make_player
from fourfold.backends.cuda.boards import find_board
from fourfold.codegen.context import KernelOptions, NodeContext
from fourfold.compiler.lower import make_plan, specialise
from fourfold.compiler.lower.kernels import choose_kernel
from fourfold.device import DeviceInfo
from fourfold.graph import Graph
from fourfold.ops.base import registry
from fourfold.ops.kernels.matrix.warpgroup import WarpgroupTile
from fourfold.plan import Plan

HOPPER = replace(NVIDIA, architectures=("sm_90",), asked_local_memory=227 << 10)
INTERPRETED = (HOPPER,)
BOARD = find_board("sm_90", units=132)
assert BOARD is not None
SMALL = replace(BOARD, compute_units=1)
TILES = ("128x128x32 in 4", "64x128x64 in 4", "128x64x64 in 4", "64x128x32 in 4", "128x128x64 in 4")


def last_context(graph: Graph, device: DeviceInfo) -> NodeContext:
    return contexts_of(graph, device, KernelOptions("mixed"))[-1]


def warpgroup_plan(graph: Graph, device: DeviceInfo, tile: str, form: str = "list") -> Plan:
    """Return a plan whose last convolution uses warpgroups."""
    options, key = KernelOptions("mixed", form=form), last_context(graph, device).key
    plan = make_plan(graph, device, options, {key: f"warpgroup: {tile}"})
    assert "warpgroup_multiply" in plan.program.text
    assert plan.requirements.warpgroups == "sm_90"
    return plan


@pytest.fixture(autouse=True)
def _halves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Store small values as fp16, too."""
    monkeypatch.setattr(specialise, "MAX_FP32_ARENA_BYTES", -1)


def has_warpgroups(device: DeviceInfo) -> bool:
    return bool(device.warpgroups)


@pytest.mark.devices(takes=has_warpgroups)
@pytest.mark.parametrize("form", ["list", "one"])
@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("title", GRAPHS)
def test_against_the_reference(title: str, tile: str, form: str, device: DeviceInfo) -> None:
    graph = in_halves(GRAPHS[title])
    given = numbers(graph)
    player = make_player(device, warpgroup_plan(graph, device, tile, form))
    player.poison()
    for _ in range(2):
        result = player.run(list(given.values()))[0]
        compare(result, graph, given)
    player.close()


@needs_compiler
@pytest.mark.parametrize("form", ["list", "one"])
@pytest.mark.parametrize("tile", TILES[:3])
@pytest.mark.parametrize("title", GRAPHS)
def test_as_cuda_on_the_host(title: str, tile: str, form: str, tmp_path: Path) -> None:
    graph = in_halves(GRAPHS[title])
    given = numbers(graph)
    plan = warpgroup_plan(graph, SMALL, tile, form)
    compare(play_on_host(plan, list(given.values()), tmp_path)[0], graph, given)


def test_only_its_own_architecture_runs_it() -> None:
    plan = warpgroup_plan(in_halves(GRAPHS["one tap"]), SMALL, TILES[0])
    assert not plan.requirements.unmet(SMALL)
    assert plan.requirements.language_version == "9.0"
    assert "--gpu-architecture=sm_90a" in plan.program.options
    newer = find_board("sm_100", units=132)
    assert newer is not None
    assert "instructions of sm_90 only" in " ".join(plan.requirements.unmet(newer))
    assert "warpgroups of sm_90" in str(plan.requirements)


def convolution(pixels: int, inputs: int, outputs: int, size: int) -> Graph:
    return build(f"""
        input x: f32[{pixels},4]
        const v: f32[{inputs},1,1,4]
        const w: f32[{outputs},{size},{size},{inputs}]
        p = reshape(x; shape=({pixels // 196},14,14,4))
        m = conv2d(p, v)
        y = conv2d(m, w; padding=Padding({size // 2},{size // 2},{size // 2},{size // 2}))
        output y
        """)


@pytest.mark.parametrize(
    ("board", "pictures", "inputs", "outputs", "size", "chosen"),
    [
        (BOARD, 32, 256, 256, 3, "128x128x64 in 4"),
        (BOARD, 32, 1024, 256, 1, "128x128x64 in 4"),
        (BOARD, 32, 96, 256, 3, "128x128x32 in 4"),
        (BOARD, 8, 2048, 512, 1, "64x128x64 in 4"),  # few groups
        (BOARD, 64, 128, 64, 3, "128x64x64 in 4"),
        (BOARD, 1, 256, 256, 3, ""),  # too few pixels
        (BOARD, 32, 24, 256, 3, ""),  # too few channels
        (find_board("sm_89", units=132), 32, 256, 256, 3, ""),
        (find_board("sm_100", units=132), 32, 256, 256, 3, ""),
    ],
)
def test_when_warpgroups_are_selected(
    board: DeviceInfo, pictures: int, inputs: int, outputs: int, size: int, chosen: str
) -> None:
    context = last_context(convolution(196 * pictures, inputs, outputs, size), board)
    kernel = str(choose_kernel(context, {}))
    assert (kernel == "warpgroup: default") == bool(chosen)
    if chosen:
        variants = {one.name: one for one in registry()[context.node.op].variants}
        assert variants["warpgroup"].choices(context)[0] == chosen


def test_tiles_are_parsed_from_text() -> None:
    for text in TILES:
        assert str(WarpgroupTile.parse(text)) == text
    assert WarpgroupTile.parse("128x128 in 4") is None
    assert WarpgroupTile(128, 128, 64, 4).local_bytes == 128 << 10
    assert WarpgroupTile(64, 128, 64, 4).items == 128
