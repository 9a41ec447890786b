"""Values without elements: no kernel computes them, and readers find no elements."""

from __future__ import annotations

import pytest
from fake_devices import H200, NVIDIA, X86
from random_graphs import build

from fourfold.backends.null import NULL_GPU
from fourfold.codegen.context import KernelOptions
from fourfold.compiler.lower import make_plan
from fourfold.device import DeviceInfo
from fourfold.plan import Container, Plan, container_bytes, read_plan
from fourfold.plan.record import plan_sections

DEVICES = {"cpu": X86, "gpu": NULL_GPU, "h200": H200, "nvidia": NVIDIA}
NODES = {
    "a pointwise op": "y = add(x, x)",
    "a convolution": "const w: f32[8,3,3,8]\ny = conv2d(x, w)",
    "a reduction": "y = mean(x; axes=(1, 2), keep_dims=True)",
}


def read_again(plan: Plan) -> Plan:
    file = Container(container_bytes(plan_sections(plan)), "a plan")
    return read_plan(file, 0, 1, 2)


@pytest.mark.parametrize("like", DEVICES.values(), ids=list(DEVICES))
@pytest.mark.parametrize("node", NODES.values(), ids=list(NODES))
def test_nothing_is_launched(node: str, like: DeviceInfo) -> None:
    graph = build(f"input x: f32[0,7,9,8]\n{node}\noutput y")
    plan = make_plan(graph, like, KernelOptions())
    assert plan.launches == ()
    assert str(read_again(plan)) == str(plan)


@pytest.mark.parametrize("like", DEVICES.values(), ids=list(DEVICES))
def test_reader_of_empty_value_runs(like: DeviceInfo) -> None:
    text = "input x: f32[0,3]\ninput z: f32[2,3]\na = relu(x)\ny = concat(a, z; axis=0)\noutput y"
    plan = make_plan(build(text), like, KernelOptions())
    assert [launch.title for launch in plan.launches] == ["concat_copy"]
    assert str(read_again(plan)) == str(plan)
