"""Sub-group exchanges give the same results as local memory.

Kernels for GPUs run on any device: with its own sub-groups if it has any, and with emulated NVIDIA
warps (`emulated_warps`). The interpreter supports both.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from emulated_warps import emulated
from half_precision import skip_without_halves
from interpreted_devices import KHR
from random_graphs import build
from side_by_side import level_by_level, share

from fourfold.backends import determine_facts, make_player, probe
from fourfold.backends.cpu.reference import evaluate
from fourfold.backends.null import NULL_GPU
from fourfold.backends.opencl import feature_probes
from fourfold.codegen.combine import group_combine
from fourfold.codegen.context import KernelOptions
from fourfold.codegen.expression import Expression, load, maximum, minimum
from fourfold.codegen.kernel import Kernel
from fourfold.codegen.language import find_language, make_target
from fourfold.codegen.opencl.prelude import EXCHANGES, SUBGROUP_SIZES
from fourfold.codegen.walk import special_nodes
from fourfold.compiler.lower import make_plan
from fourfold.compiler.rewrite import rewrite
from fourfold.device import DeviceInfo
from fourfold.plan import Buffer, BufferUse, Launch, Plan, Port, Program
from fourfold.plan.requirements import Requirements
from fourfold.types import DType, TensorType

INTERPRETED = (KHR,)
# All groups have 256 work-items, because all of them meet when they are emulated.
STAGES = """
input x: f32[3,1031]
const w: f32[131,1031]
a = fully_connected(x, w)
b = softmax(x)
c = l2_normalize(b)
output a, c
"""
Combine = Callable[[Expression, Expression], Expression]
QUICK = ("rows", "ptx")  # emulating a warp is slow
GROUPS = 3
SHAPES = [(2, 1), (4, 7), (8, 3), (8, 32), (16, 1), (16, 5), (32, 8), (64, 3), (128, 1), (256, 1)]
TEAMS = [*(("khr", *shape) for shape in SHAPES), ("ptx", 16, 1), ("ptx", 64, 1), ("ptx", 32, 3)]
TOLERANCE = {"fp32": 2e-5, "mixed": 6e-3, "fp16": 3e-2}
GRAPHS = {
    "reductions": """
        input x: f32[2,19,13,7]
        a = sum(x; axes=(1, 2), keep_dims=True)
        b = mean(x; axes=(1, 2), keep_dims=True)
        c = reduce_max(x; axes=(1, 2, 3), keep_dims=True)
        d = reduce_min(x; axes=(1, 2), keep_dims=True)
        e = reduce_prod(x; axes=(1, 2), keep_dims=True)
        f = variance(x, b; axes=(1, 2), keep_dims=True)
        output a, b, c, d, e, f
        """,
    "walks over channels": """
        input x: f32[3,1009]
        a = softmax(x)
        b = log_softmax(x)
        c = l2_normalize(x)
        d = top_indices(x; count=3)
        output a, b, c, d
        """,
    "rows": """
        input x: f32[3,263]
        const w: f32[11,263]
        y = fully_connected(x, w)
        output y
        """,
    "a chain": """
        input x: f32[2,7,7,257]
        const w: f32[11,1,1,257]
        const b: f32[11]
        a = mean(x; axes=(1, 2), keep_dims=True)
        p = conv2d(a, w, b)
        y = softmax(p)
        output y
        """,
}


def like_a_gpu(device: DeviceInfo, spelling: str) -> DeviceInfo:
    """Return the facts of a GPU with these sub-groups; skip devices that do not support them."""
    if spelling == "khr" and determine_facts(device, ["subgroups"]).subgroups != spelling:
        pytest.skip(f"{device.name} has no sub-groups that exchange numbers")
    facts = replace(device, kind="gpu", compute_units=16, max_work_group=256)
    return replace(facts, matrix_units=False, dot_products="", subgroups=spelling)


def played(device: DeviceInfo, plan: Plan, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """Return the device's results of a plan after two equal runs."""
    emulates = "shfl.sync" in plan.program.text and device.subgroups != "ptx"
    player = make_player(device, emulated(plan) if emulates else plan)
    player.poison()
    results, again = player.run(arrays), player.run(arrays)
    player.close()
    for first, second in zip(results, again, strict=True):
        np.testing.assert_array_equal(first, second)
    return results


@pytest.mark.parametrize("precision", ["fp32", "mixed", "fp16"])
@pytest.mark.parametrize(("title", "spelling"), [*((title, "khr") for title in GRAPHS), QUICK])
def test_graphs(title: str, spelling: str, precision: str, device: DeviceInfo) -> None:
    skip_without_halves(device, precision)
    graph, facts = build(GRAPHS[title]), like_a_gpu(device, spelling)
    x = np.random.default_rng(5).uniform(-1, 1, graph.types["x"].shape).astype(np.float32)
    if precision == "fp16":
        x = x.astype(np.float16).astype(np.float32)
    wanted = evaluate(graph, {"x": x})
    results = []
    for subgroups in (spelling, ""):
        facts = replace(facts, subgroups=subgroups)
        plan = make_plan(rewrite(graph), facts, KernelOptions(precision, form="list"))
        assert plan.requirements.subgroups == subgroups
        results.append(played(device, plan, [x]))
    for name, exchanged, plain in zip(graph.outputs, *results, strict=True):
        assert not np.isnan(exchanged).any()
        limit = TOLERANCE[precision] * max(1.0, float(np.abs(wanted[name]).max()))
        assert np.abs(exchanged - wanted[name]).max() <= limit
        assert np.abs(exchanged - plain).max() <= limit / 4


def test_stages_of_one_launch(device: DeviceInfo) -> None:
    """A group of 256 runs rows and teams in turn in the same local memory."""
    facts = replace(like_a_gpu(device, "khr"), resident=True, compute_units=2)
    graph = rewrite(build(STAGES))
    shared = share(graph, facts, KernelOptions())
    assert shared.plan.requirements.subgroups == "khr"
    assert {stage.kernel.local_items for stage in shared.stages} == {256}
    plan = shared.plan if device.language == "tree" else level_by_level(shared)
    x = np.random.default_rng(6).uniform(-1, 1, graph.types["x"].shape).astype(np.float32)
    wanted = evaluate(graph, {"x": x})
    for name, result in zip(graph.outputs, played(device, plan, [x]), strict=True):
        limit = 2e-5 * max(1.0, float(np.abs(wanted[name]).max()))
        assert np.abs(result - wanted[name]).max() <= limit


def team_plan(
    spelling: str, lanes: int, rows: int, combine: Combine, kind: str, language: str = "opencl"
) -> Plan:
    """Return a plan in which every work-item stores its team's combined value."""
    kernel = Kernel("teams", literal=True)
    kernel.subgroup_size = SUBGROUP_SIZES.get(spelling, 1)
    dtype = DType.F32 if kind == "float" else DType.I32
    source, target = kernel.pointer("x", dtype, None), kernel.pointer("y", dtype, None, True)
    x, y = kernel.ids(lanes, rows * GROUPS, local=(lanes, rows))
    place = kernel.let(y * lanes + x, "place")
    values = [kernel.variable(load(source, place * 2 + n, kind), "value") for n in range(2)]
    group_combine(kernel, values, lanes, combine, row=kernel.local_id(1))
    for number, value in enumerate(values):
        kernel.store(target, place * 2 + number, value)
    written = find_language(language)
    target = make_target(written, replace(NULL_GPU, subgroups=spelling), KernelOptions())
    prelude = written.prelude(special_nodes([kernel]), target)
    text = f"{prelude.text}\n{written.render(kernel, 'teams')}"
    type_ = TensorType(dtype, (GROUPS * rows, lanes, 2))
    return Plan(
        name="teams",
        program=Program(text, prelude.build_options),
        buffers=(
            Buffer("arena", "arena", 0),
            Buffer("constants", "constants", 64),
            Buffer("x", "input", type_.bytes),
            Buffer("y", "output", type_.bytes),
        ),
        launches=(
            Launch("teams", (BufferUse(2, 0), BufferUse(3, 0)), kernel.grid, kernel.local, "", ""),
        ),
        inputs=(Port("x", type_, 2),),
        outputs=(Port("y", type_, 3),),
        constants=np.zeros(64, np.uint8),
        precision="fp32",
        requirements=Requirements(language=language, subgroups=spelling),
    )


@pytest.mark.parametrize(("spelling", "lanes", "rows"), TEAMS)
def test_teams_of_any_shape(spelling: str, lanes: int, rows: int, device: DeviceInfo) -> None:
    """Teams are whole sub-groups or parts; all work-items get the same bits, NaN or not."""
    like_a_gpu(device, spelling)
    shape, language = (spelling, lanes, rows), device.language
    generator = np.random.default_rng(lanes * 31 + rows)
    whole = generator.integers(-99, 99, (GROUPS * rows, lanes, 2)).astype(np.int32)
    plan = team_plan(*shape, minimum, "int", language)
    (least,) = played(device, plan, [whole])
    np.testing.assert_array_equal(least, np.broadcast_to(whole.min(1, keepdims=True), least.shape))
    real = generator.uniform(-1, 1, whole.shape).astype(np.float32)
    (sums,) = played(device, team_plan(*shape, operator.add, "float", language), [real])
    assert np.abs(sums - real.sum(1, keepdims=True)).max() <= 1e-6 * lanes
    real[:, generator.integers(0, lanes), 1] = np.nan
    (most,) = played(device, team_plan(*shape, maximum, "float", language), [real])
    for result in (sums, most):
        bits = result.view(np.int32)
        np.testing.assert_array_equal(bits, np.broadcast_to(bits[:, :1], bits.shape))


def test_a_warp_alone_needs_no_local_memory() -> None:
    assert "__local" not in team_plan("ptx", 32, 8, operator.add, "float").program.text
    assert "__local" in team_plan("ptx", 64, 4, operator.add, "float").program.text
    assert "exchange" not in team_plan("ptx", 16, 2, operator.add, "float").program.text
    assert "exchange" not in team_plan("", 64, 1, operator.add, "float").program.text


@pytest.mark.devices(takes=lambda device: device.api == "opencl")
@pytest.mark.parametrize("wrong", ["#define exchange(value, apart) (value)\n", "no such language"])
def test_the_probe_checks_the_numbers(
    wrong: str, device: DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = device.claims["subgroups"] or "khr"
    like_a_gpu(device, claim)
    monkeypatch.setitem(EXCHANGES, claim, wrong)
    assert not feature_probes.exchanges(device, claim)


def test_a_gpu_that_fails_the_probe_uses_local_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = replace(NULL_GPU, name="a GPU that promises much", claims={"subgroups": "khr"})
    monkeypatch.setattr(feature_probes, "exchanges", lambda info, claim: False)
    assert probe(facts).subgroups == ""


@pytest.mark.devices(takes=lambda device: device.is_cpu)
def test_a_cpu_does_not_exchange(device: DeviceInfo) -> None:
    graph = build(GRAPHS["walks over channels"])
    plan = make_plan(rewrite(graph), replace(device, subgroups="khr"), KernelOptions(form="list"))
    assert not plan.requirements.subgroups
    assert "CL3.0" not in plan.program.options
