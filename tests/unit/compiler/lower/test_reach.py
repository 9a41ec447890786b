"""Ports in host memory: fetched inputs, outputs written directly, and ports that stay."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from fake_devices import H200
from random_graphs import build

from fourfold.codegen.c_style.sharing import ENTRY
from fourfold.codegen.context import KernelOptions
from fourfold.codegen.stage_table import AWAITS, HEAD
from fourfold.compiler.lower import make_plan
from fourfold.plan import (
    Buffer,
    Container,
    Plan,
    container_bytes,
    read_plan,
)
from fourfold.plan.record import plan_sections

NETWORK = """
input x: f32[1,13,11,3]
const w: f32[16,3,3,3]
const v: f32[5,1,1,16]
a = conv2d(x, w; padding=Padding(1,1,1,1)) |> relu
b = conv2d(a, v)
c = softmax(b)
d = mean(c; axes=(1,2), keep_dims=True)
output c, d
"""


def plan(form: str = "one", reaches: bool = True) -> Plan:
    device = replace(H200, reaches_host=reaches)
    return make_plan(build(NETWORK), device, KernelOptions("mixed", form=form))


def kinds(made: Plan) -> dict[str, list[str]]:
    result: dict[str, list[str]] = {}
    for buffer in made.buffers:
        result.setdefault(buffer.name, []).append(buffer.kind)
    return result


def test_input_is_fetched_and_output_written_directly() -> None:
    made = plan()
    assert [launch.entry for launch in made.launches] == [ENTRY]
    result = kinds(made)
    assert result["x"] == ["input", "host"]
    assert result["d"] == ["host"]
    # the mean reads it again, so it is delivered at the end
    assert result["c"] == ["output", "host"]
    assert made.buffers[made.inputs[0].buffer].kind == "host"
    assert {made.buffers[port.buffer].kind for port in made.outputs} == {"host"}
    assert made.stages == plan(reaches=False).stages + 2
    assert made.buffers[-1].kind == "state"


@pytest.mark.parametrize(("height", "delivered"), [(13, 0), (397, 1)])
def test_large_outputs_are_delivered_in_whole_lines(height: int, delivered: int) -> None:
    text = NETWORK.replace("f32[1,13,11,3]", f"f32[1,{height},11,3]")
    graph = build(text.partition("d = mean")[0] + "output c")
    made = make_plan(graph, H200, KernelOptions("mixed", form="one"))
    assert made.buffers[made.outputs[0].buffer].kind == "host"
    assert made.program.text.count("static void deliver_") == delivered


def test_an_input_that_is_also_an_output_is_fetched_and_there_already() -> None:
    graph = build(NETWORK.replace("output c, d", "output d, x"))
    made = make_plan(graph, H200, KernelOptions("mixed", form="one"))
    assert kinds(made)["x"] == ["input", "host"]
    assert made.outputs[1].buffer == made.inputs[0].buffer
    assert made.buffers[made.inputs[0].buffer].kind == "host"


def test_a_plan_comes_back_from_a_file() -> None:
    """The plan has every kind of buffer."""
    made = plan()
    sections = plan_sections(made)
    found = read_plan(Container(container_bytes(sections), "it"), 0, 1, 2)
    assert {buffer.kind for buffer in made.buffers} >= {"host", "host_protocol", "state"}
    assert found.buffers == made.buffers
    assert found.launches == made.launches
    assert found.on_device == made.on_device
    assert made.on_device is not None


def test_inputs_on_the_device_are_read_where_they_are() -> None:
    """The launch has another table without stages that fetch; only two numbers differ."""
    made = plan()
    assert made.on_device is not None
    (number,), arguments = made.on_device.buffers, made.on_device.arguments
    assert made.buffers[number] == Buffer("x", "input", made.inputs[0].type.bytes)
    launch = made.launches[0]
    assert arguments[:-2] == launch.arguments[:-2]
    stages, at = arguments[-2:]
    assert (stages, launch.arguments[-2]) == (made.stages - 1, made.stages)
    tables = [_rows(made, start, count) for count, start in (launch.arguments[-2:], (stages, at))]
    fetch, *others = tables[0]
    pointers = slice(HEAD, HEAD + 4)
    assert fetch[pointers].tolist() == [made.inputs[0].buffer, 0, number, 0]
    for one, other in zip(others, tables[1], strict=True):
        assert one[0] == other[0]
        assert one[HEAD:].tolist() == other[HEAD:].tolist()
    assert not tables[1][0][5] & AWAITS  # no group has arrived before the first stage


def _rows(made: Plan, start: int, count: int) -> np.ndarray:
    """Return the rows of a table: vectors of numbers, as many as fit before the next table."""
    assert made.on_device is not None
    first, second = sorted((made.launches[0].arguments[-1], made.on_device.arguments[-1]))
    stride = (second - first) // 4 // made.stages // 4 * 4
    return made.constants[start : start + 4 * count * stride].view(np.int32).reshape(count, stride)


@pytest.mark.parametrize(
    ("form", "reaches", "clocked"),
    [("one", False, False), ("one", True, True), ("list", True, False)],
)
def test_plans_without_fetches_have_no_second_table(
    form: str, reaches: bool, clocked: bool
) -> None:
    device = replace(H200, reaches_host=reaches)
    options = KernelOptions("mixed", form=form, clocked=clocked)
    assert make_plan(build(NETWORK), device, options).on_device is None


def test_lists_of_launches_and_other_devices_copy() -> None:
    for made in (plan("list"), plan(reaches=False)):
        assert "host" not in {buffer.kind for buffer in made.buffers}
        assert made.buffers[made.inputs[0].buffer].kind == "input"


@pytest.mark.parametrize("form", ["one", "list"])
def test_each_stage_waits_once(form: str) -> None:
    """A stage that prepares first states itself when it waits; for the others the walk does."""
    text = plan(form).program.text
    if form == "list":
        assert "await_others" not in text
        return
    cases = text.split("switch (row[0])")[1].split("case ")[1:]
    for case in cases:
        name = case.split("(virtual < row[1])")[-1].strip().split("(")[0].split()[-1]
        body = text.split(f"static void {name}(")[1].split("\n}\n")[0]
        assert ("await_others(&others)" in case.split("break;")[0]) != ("await_" in body)


def test_small_and_large_inputs_are_fetched_by_kernels_of_their_own() -> None:
    """A size of one is a literal, so an input of sixteen bytes has another text."""
    graph = build("""
input x: f32[1,13,11,4]
input y: f32[1,1,1,4]
a = add(x, y) |> relu
b = mul(a, x)
c = softmax(b)
d = mean(c; axes=(1,2), keep_dims=True)
output d
""")
    text = make_plan(graph, H200, KernelOptions("fp32", form="one")).program.text
    assert len(re.findall(r"static void fetch_\d+\(", text)) == 2
