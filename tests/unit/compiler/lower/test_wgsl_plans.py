"""Plans in WGSL follow the rules of WebGPU for bindings, and compile few kernels."""

from __future__ import annotations

import pytest
from model_collection import TFLITE, at_hand
from op_kernels import WITH_KERNELS, op_graph
from random_graphs import build
from wgsl_on_wgpu import LEAST, modules

from fourfold.backends import find_target
from fourfold.backends.null import NULL_GPU
from fourfold.codegen.context import KernelOptions
from fourfold.compiler.lower import make_plan
from fourfold.compiler.lower.allocation import Span, assign_arenas
from fourfold.compiler.rewrite import rewrite
from fourfold.formats import read_model
from fourfold.graph import Graph
from fourfold.ops.kernels.conv.tile import COMMON_TILES, EMULATED_TILES, ConvTile
from fourfold.plan import BufferUse, Launch, Plan

MODELS = ("face_detection_short_range", "kws_ref_model", "pnet", "movenet_lightning_int8")


def bound(launch: Launch, marks: list[str]) -> dict[str, list[int]]:
    """Return the buffers that a launch reads and those that it writes, by its bindings."""
    result: dict[str, list[int]] = {"r": [], "w": []}
    for mark in marks:
        use = launch.arguments[int(mark[1:])]
        assert isinstance(use, BufferUse)
        result[mark[0]].append(use.buffer)
    return result


def broken_rules(plan: Plan) -> list[str]:
    """Return violations of WebGPU's rules with default limits."""
    wrong, known = [], modules(plan)
    for launch in plan.launches:
        text, marks = known[launch.entry]
        buffers = bound(launch, marks)
        groups = [size // by for size, by in zip(launch.grid, launch.local, strict=True)]
        wrong += ["read and written"] if {*buffers["r"]} & {*buffers["w"]} else []
        wrong += ["written twice"] if len({*buffers["w"]}) < len(buffers["w"]) else []
        wrong += ["too many bindings"] if len(marks) > 8 else []
        wrong += ["too many groups"] if max(groups) > 65535 else []
        wrong += ["another group"] if f"size({launch.local[0]}, " not in text else []
    return wrong


@pytest.mark.parametrize("precision", ["fp32", "mixed"])
@pytest.mark.parametrize("name", MODELS)
def test_models_keep_the_rules(name: str, precision: str) -> None:
    path = at_hand(TFLITE / f"{name}.tflite")
    graph = rewrite(read_model(str(path)).main)
    assert not broken_rules(make_plan(graph, LEAST, KernelOptions(precision)))


def test_ops_keep_the_rules() -> None:
    for name in WITH_KERNELS:
        assert not broken_rules(make_plan(op_graph(name), LEAST, KernelOptions())), name


def chain() -> Graph:
    return build(
        """
        input x: f32[1,16,16,8]
        a = tanh(x)
        b = transpose(a; permutation=(0,2,1,3))
        c = transpose(b; permutation=(0,3,2,1))
        d = transpose(c; permutation=(0,2,1,3))
        y = transpose(d; permutation=(0,2,3,1))
        output y
        """
    )


def test_writes_and_reads_use_different_buffers() -> None:
    plan = make_plan(chain(), LEAST, KernelOptions())
    known = modules(plan)
    assert all(len(bound(one, known[one.entry][1])["r"]) == 1 for one in plan.launches)
    assert [buffer.kind for buffer in plan.buffers].count("arena") == 2
    alone = make_plan(chain(), NULL_GPU, KernelOptions())
    assert [buffer.kind for buffer in alone.buffers].count("arena") == 1


def test_conflicting_values_share_no_arena() -> None:
    spans = {name: Span(128, 0, 3) for name in "abc"}
    apart = {"a": {"b"}, "b": {"a"}}
    arenas = assign_arenas(spans, 64, 1 << 20, apart)
    assert [sorted(arena.offsets) for arena in arenas] == [["a", "c"], ["b"]]


def test_value_goes_to_the_arena_that_grows_least() -> None:
    spans = {"a": Span(512, 0, 1), "b": Span(128, 0, 3), "c": Span(128, 2, 3)}
    arenas = assign_arenas(spans, 64, 1 << 20, {"a": {"b"}, "b": {"a"}})
    assert [arena.size for arena in arenas] == [512, 128]
    assert arenas[0].offsets == {"a": 0, "c": 0}


@pytest.mark.parametrize(
    ("name", "most"), [("face_detection_short_range", 18), ("mobilenet_v1_025_224_float", 11)]
)
def test_layers_of_a_kind_share_a_pipeline(name: str, most: int) -> None:
    path = at_hand(TFLITE / f"{name}.tflite")
    graph = rewrite(read_model(str(path)).main)
    few, many = (make_plan(graph, one, KernelOptions()) for one in (LEAST, NULL_GPU))
    assert len(modules(few)) <= most < len({launch.entry for launch in many.launches})


@pytest.mark.parametrize(("texts", "most"), [(COMMON_TILES, 8), (EMULATED_TILES, 16)])
def test_few_tiles_are_tiles(texts: tuple[str, ...], most: int) -> None:
    tiles = [ConvTile.parse(text) for text in texts]
    assert all(tile is not None and tile.pixels * tile.groups <= most for tile in tiles)
    assert [str(tile) for tile in tiles] == [*texts]


def test_emulated_gpu_reads_windows_without_branches() -> None:
    """A branch at every tap of eight pixels took SwiftShader's compiler half a minute."""
    graph = build(
        """
        input x: f32[1,32,32,8]
        const w: f32[16,3,3,8]
        a = conv2d(x, w; padding=Padding(1,1,1,1))
        const f: f32[1,3,3,16]
        y = depthwise_conv2d(a, f; padding=Padding(1,1,1,1))
        output y
        """
    )
    gpu, software = (
        make_plan(graph, find_target(f"webgpu:{board}", 2), KernelOptions())
        for board in ("any", "software")
    )
    assert "if (" in gpu.program.text
    assert "if (" not in software.program.text
    assert "&&" not in software.program.text


@pytest.mark.parametrize(
    ("board", "side", "rounds"),
    [("software", 300, 90300), ("software", 200, 0), ("any", 300, 0)],
)
def test_plans_record_loop_iterations(board: str, side: int, rounds: int) -> None:
    """Iterations of one work-item over rows and columns; if several share a sum, each has a part of
    it.
    """
    graph = build(
        f"""
        input x: f32[1,{side},{side},4]
        y = mean(x; axes=(1,2), keep_dims=True)
        output y
        """
    )
    plan = make_plan(graph, find_target(f"webgpu:{board}", 8), KernelOptions())
    assert plan.requirements.loop_rounds == rounds
    assert make_plan(graph, NULL_GPU, KernelOptions()).requirements.loop_rounds == 0


def test_a_window_in_a_large_picture_is_a_short_loop() -> None:
    """The window ends at the end of the image, so it has at most as many iterations as its size."""
    graph = build(
        """
        input x: f32[1,300,300,4]
        y = max_pool2d(x; filter=(2,2), stride=(2,2))
        output y
        """
    )
    plan = make_plan(graph, find_target("webgpu:software", 8), KernelOptions())
    assert "for (" in plan.program.text
    assert plan.requirements.loop_rounds == 0
