"""Trials of single nodes: as launches, or as stages if plans are one launch."""

from __future__ import annotations

from dataclasses import replace

from random_graphs import build

from fourfold.backends.null import NULL_GPU
from fourfold.codegen.c_style.sharing import ENTRY
from fourfold.codegen.context import KernelOptions
from fourfold.compiler.lower.trials import REPEATS, Trials, plan_trials
from fourfold.compiler.tune.search import Known, searches

NETWORK = """
input x: f32[1,13,11,3]
const w: f32[16,3,3,3]
const v: f32[5,1,1,16]
a = conv2d(x, w; padding=Padding(1,1,1,1)) |> relu
b = conv2d(a, v)
output b
"""


def trials(resident: bool) -> Trials:
    device = replace(NULL_GPU, resident=resident, matrix_units=resident)
    graph, options = build(NETWORK), KernelOptions("mixed")
    result = searches(graph, device, options, Known({}, {}), 4)
    return plan_trials(graph, device, options, {one.key: list(one.candidates) for one in result})


def test_launch_by_launch() -> None:
    made = trials(resident=False)
    assert made.repeats == 1
    numbers = [number for some in made.of.values() for one in some for number in one.launches]
    assert numbers == list(range(len(made.plan.launches)))
    assert all(launch.stages == 1 for launch in made.plan.launches)


def test_as_stages_that_repeat() -> None:
    made = trials(resident=True)
    assert made.repeats == REPEATS
    numbers = [one.launches for some in made.of.values() for one in some]
    assert numbers == [range(at, at + 1) for at in range(len(made.plan.launches))]
    assert {launch.entry for launch in made.plan.launches} == {ENTRY}
    assert all(launch.stages % REPEATS == 0 for launch in made.plan.launches)
    tables = [launch.arguments[-1] for launch in made.plan.launches]
    assert len(set(tables)) > 1
    assert made.plan.buffers[-1].kind == "state"
