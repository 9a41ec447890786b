"""Stages side by side: few barriers, and no stage overwrites what another one needs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from fake_devices import H200
from model_collection import TFLITE, at_hand
from random_graphs import Random, build
from side_by_side import Shared, conflicts, share, table_stride

from fourfold.codegen.context import KernelOptions
from fourfold.codegen.kernel import Kernel
from fourfold.codegen.stage_table import ARRIVES, AWAITS
from fourfold.compiler.lower import make_plan, one_launch
from fourfold.compiler.lower.allocation import Span, find_dependencies
from fourfold.compiler.lower.bind import bound_to
from fourfold.compiler.lower.chosen_kernels import choose_kernels
from fourfold.compiler.lower.levels import LevelSpan, arrangements, surround_levels
from fourfold.compiler.lower.one_launch import in_level_order
from fourfold.compiler.rewrite import rewrite
from fourfold.formats import read_model

MODELS = (
    *("dtln_1_float", "okay_nabu", "lyragan", "emotion_model_quantized", "iris_landmark"),
    *("face_landmark_fp16", "ssd_mobilenet_v2_fp16", "ultraface_rfb_320", "knift_float"),
)
BLOCK = """
input x: f32[1,13,11,16]
const a: f32[8,1,1,16]
const b: f32[8,3,3,8]
const c: f32[32,1,1,8]
const d: f32[32,1,1,16]
shortcut = conv2d(x, d)
one = conv2d(x, a) |> relu
two = conv2d(one, b; padding=Padding(1,1,1,1)) |> relu
three = conv2d(two, c) |> add(shortcut)
output three
"""


def titles(shared: Shared) -> list[str]:
    return [shared.said(stage).partition(" =")[0] for stage in shared.stages]


def flags(shared: Shared) -> list[int]:
    """Return the flags of the table: before the first stage, there is nothing to wait for."""
    known = [stage.arrives * ARRIVES + stage.awaits * AWAITS for stage in shared.stages]
    return [known[0] - AWAITS, *known[1:]]


def random_needs(seed: int) -> list[frozenset[int]]:
    random = np.random.default_rng(seed)
    return [
        frozenset(int(other) for other in random.integers(0, number, random.integers(0, 3)))
        if number
        else frozenset()
        for number in range(int(random.integers(1, 40)))
    ]


def depth(dependencies: list[frozenset[int]]) -> int:
    levels: list[int] = []
    for others in dependencies:
        levels.append(1 + max((levels[other] for other in others), default=0))
    return max(levels)


@pytest.mark.parametrize("seed", range(40))
def test_levels_are_few_and_in_order(seed: int) -> None:
    dependencies = random_needs(seed)
    few, ordered = arrangements(dependencies)
    for levels in (few, ordered):
        for span, others in zip(levels, dependencies, strict=True):
            assert all(levels[other].last < span.first for other in others)
            assert 0 <= span.last - span.first <= 1
        # Groups arrive after a stage that ends in a level: each level has such a stage.
        ends = {span.first for span in levels if not span.crosses}
        assert ends == {*range(1 + max(span.last for span in levels))}
    assert 1 + max(span.last for span in few) == depth(dependencies)
    assert ordered == sorted(ordered)


@pytest.mark.parametrize("seed", range(20))
def test_groups_wait_before_dependent_stages(seed: int) -> None:
    """Groups at any speed walk the stages as the kernel does, with a counter whose top bit
    flips.
    """
    dependencies, random = random_needs(seed), np.random.default_rng(seed)
    kernel = Kernel("any", literal=False)
    for levels in arrangements(dependencies):
        bound = [bound_to(kernel, (number,), "") for number in range(len(dependencies))]
        stages = in_level_order(bound, levels)
        numbers = [int(str(stage.arguments[0])) for stage in stages]
        groups, counter, half = 3, 0, 1 << 31
        at, phase, due, done = [0] * groups, [0] * groups, [False] * groups, [0] * len(dependencies)
        while any(place < len(stages) for place in at):
            group = int(random.choice([n for n in range(groups) if at[n] < len(stages)]))
            stage, number = stages[at[group]], numbers[at[group]]
            if due[group] and stage.awaits:
                if counter & half != phase[group]:
                    continue
                due[group] = False
            assert all(done[other] == groups for other in dependencies[number])
            done[number] += 1
            if stage.arrives and at[group] + 1 < len(stages):
                assert not due[group]
                counter = (counter + (half - groups + 1 if group == 0 else 1)) % (2 * half)
                phase[group], due[group] = phase[group] ^ half, True
            at[group] += 1
        assert done == [groups] * len(dependencies)


def test_shortcut_crosses_first_barrier_of_its_block() -> None:
    shared = share(build(BLOCK), H200, KernelOptions("mixed"))
    inner, ports = ["one", "shortcut", "two", "three"], ["x from", "three to"]
    assert titles(shared) == [f"{ports[0]} host memory", *inner, f"{ports[1]} host memory"]
    assert shared.barriers == [(0, 1), (1, 3), (3, 4), (4, 5)]
    assert shared.plan.launches[0].node == "6 stages, 4 grid barriers, 1 of them crossed"
    assert conflicts(shared) == []


def test_dealing_continues_without_a_barrier() -> None:
    """After a barrier, the first group begins; without one, the group that would be next."""
    shared = share(build(BLOCK), H200, KernelOptions("mixed"))
    launch = shared.plan.launches[0]
    count, start = launch.arguments[-2:]
    assert isinstance(start, int)
    assert count == len(shared.stages) == 6
    stride = table_stride(shared.plan)
    table = shared.plan.constants[start:].view(np.int32)
    rows = table[: count * stride].reshape(count, stride)
    assert [*rows[:, 5]] == flags(shared)
    dealt = 0
    for number, row in enumerate(rows):
        if number in (1, 4, 5):
            dealt = 0
        assert (dealt + row[2]) % H200.compute_units == 0
        dealt += row[1]
    assert rows[2:4, 2].all()


@pytest.mark.parametrize("precision", ["fp32", "mixed"])
@pytest.mark.parametrize("seed", range(40))
def test_random_graphs(seed: int, precision: str) -> None:
    graph = rewrite(Random(900 + seed).graph(size=20), verify=True)
    assert conflicts(share(graph, H200, KernelOptions(precision))) == []


@pytest.mark.parametrize("name", MODELS)
def test_models(name: str) -> None:
    path = at_hand(TFLITE / f"{name}.tflite")
    shared = share(rewrite(read_model(str(path)).main), H200, KernelOptions("mixed"))
    assert conflicts(shared) == []
    assert len(shared.barriers) + 1 < len(shared.stages)


STATE = """
input x: f32[1,13,11,16]
input s: f32[1,13,11,8]
const w: f32[8,1,1,16]
{nodes}
output a, b
"""


@pytest.mark.parametrize(
    "order", [("a = tanh(s)", "b = conv2d(x, w)"), ("b = conv2d(x, w)", "a = tanh(s)")]
)
def test_state_is_written_after_its_readers(order: tuple[str, str]) -> None:
    graph = replace(build(STATE.format(nodes="\n".join(order))), states={"s": "b"})
    shared = share(graph, H200, KernelOptions("mixed"))
    assert conflicts(shared) == []
    names = titles(shared)
    written = "s in the next run" if order[0].startswith("b") else "b"
    read, write = names.index("a"), names.index(written)
    assert any(read <= arrive and wait <= write for arrive, wait in shared.barriers)


def test_levels_do_not_cost_much_memory() -> None:
    """Branches that begin with large values run one after the other, small ones side by side."""
    branches = [
        f"a{n} = conv2d(x, w)\nb{n} = conv2d(a{n}, v; stride=(8,8))\nc{n} = tanh(b{n})"
        for n in range(6)
    ]
    text = "const w: f32[64,1,1,4]\nconst v: f32[4,1,1,64]\n" + "\n".join(branches)
    outputs = ", ".join(f"c{n}" for n in range(6))
    for size, together in ((16, True), (256, False)):
        graph = build(f"input x: f32[1,{size},{size},4]\n{text}\noutput {outputs}")
        shared = share(graph, H200, KernelOptions("mixed"))
        listed = make_plan(graph, H200, KernelOptions("mixed", form="list"))
        assert (len(shared.barriers) < 8) is together
        assert conflicts(shared) == []
        grown = shared.plan.buffers[0].bytes - listed.buffers[0].bytes
        assert grown <= max(listed.buffers[0].bytes // 8, 1 << 20)


def test_an_overlap_is_found() -> None:
    """The checker detects a value that overlaps one that is still needed."""
    shared = share(build(BLOCK), H200, KernelOptions("mixed"))
    stages = [*shared.stages]
    for number in (1, 2):
        stages[number] = replace(stages[number], arrives=False)
    stages[3] = replace(stages[3], awaits=False)
    broken = replace(shared, stages=[*stages[:3], replace(stages[3], arrives=True), *stages[4:]])
    assert conflicts(broken)


def test_lifetimes_cover_concurrent_stages() -> None:
    levels = surround_levels(2, [LevelSpan(0, 0), LevelSpan(0, 1), LevelSpan(1, 1)], 1)
    assert levels == [
        LevelSpan(0, 0),
        LevelSpan(0, 0),
        LevelSpan(1, 1),
        LevelSpan(1, 2),
        LevelSpan(2, 2),
        LevelSpan(3, 3),
    ]
    assert surround_levels(0, [LevelSpan(0, 0)], 0) == [LevelSpan(0, 0)]
    assert surround_levels(0, [LevelSpan(0, 1)], 2) == [
        LevelSpan(0, 1),
        LevelSpan(2, 2),
        LevelSpan(2, 2),
    ]
    assert Span(64, *levels[3]).overlaps(Span(64, *levels[4]))


def test_copies_of_a_concat_do_not_depend_on_each_other() -> None:
    names = [f"x{number}" for number in range(300)]
    inputs = "\n".join(f"input {name}: f32[1,4]" for name in names)
    graph = build(f"{inputs}\ny = concat({', '.join(names)}; axis=0)\noutput y")
    built = choose_kernels(graph, H200, KernelOptions(), {}).built
    assert len(built) == 300
    assert find_dependencies(graph, built, {}) == [frozenset()] * 300


def test_too_many_stages_stay_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, options = build(BLOCK), KernelOptions(form="one")
    assert len(make_plan(graph, H200, options).launches) == 1
    monkeypatch.setattr(one_launch, "MAX_STAGES", 3)
    assert len(make_plan(graph, H200, options).launches) > 3
