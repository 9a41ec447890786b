"""Damaged kernels: the interpreter reports what is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
from interpreted_devices import NVIDIA, PLAIN
from random_graphs import build

from fourfold.backends.interpreter.player import Player
from fourfold.codegen.context import KernelOptions
from fourfold.codegen.expression import const, local_id
from fourfold.codegen.kernel import Kernel
from fourfold.codegen.statement import Barrier, Branch, Leave, Loop, MatrixMultiply, Statement
from fourfold.codegen.tree.parse import parse
from fourfold.codegen.tree.render import render
from fourfold.codegen.walk import expressions
from fourfold.compiler.lower import make_plan
from fourfold.compiler.rewrite import rewrite
from fourfold.device import DeviceInfo
from fourfold.errors import DeviceError
from fourfold.plan import CONSTANTS, BufferUse, Plan

SOFTMAX = """
    input x: f32[3,1009]
    y = softmax(x)
    output y
"""
TANH = """
    input x: f32[1,5,7,8]
    y = tanh(x)
    output y
"""
LAYERS = """
    input x: f32[1,7,5,12]
    const v: f32[16,3,3,12]
    const w: f32[8,1,1,16]
    a = conv2d(x, v; padding=Padding(1,1,1,1)) |> relu
    y = conv2d(a, w)
    output y
"""


def plan_of(text: str, device: DeviceInfo, precision: str = "fp32") -> Plan:
    return make_plan(rewrite(build(text)), device, KernelOptions(precision, form="list"))


def run(plan: Plan, device: DeviceInfo = PLAIN) -> None:
    random = np.random.default_rng(3)
    arrays = [random.uniform(-1, 1, port.type.shape).astype(np.float32) for port in plan.inputs]
    player = Player(device, plan)
    player.poison()
    player.run(arrays)


def spoiled(plan: Plan, change: Callable[[Kernel], None]) -> Plan:
    """Return the plan with changed kernels."""
    entries = parse(plan.program.text).entries
    for entry in entries:
        change(entry.kernel)
    text = "".join(render(entry.kernel, entry.name, entry.images) for entry in entries)
    assert text != plan.program.text.lstrip("\n").replace("\n\n", "\n")
    return replace(plan, program=plan.program._replace(text=text))


def blocks(body: list[Statement]) -> Iterator[list[Statement]]:
    """Iterate over all blocks of statements, inner ones first."""
    for statement in body:
        if isinstance(statement, Loop):
            yield from blocks(statement.body)
        elif isinstance(statement, Branch):
            yield from blocks(statement.body)
            yield from blocks(statement.otherwise)
    yield body


def test_a_barrier() -> None:
    plan = plan_of(SOFTMAX, PLAIN)
    run(plan)

    def drop(kernel: Kernel) -> None:
        for body in blocks(kernel.body):
            body[:] = [one for one in body if not isinstance(one, Barrier)]

    with pytest.raises(DeviceError, match="has a data race on 'shared'"):
        run(spoiled(plan, drop))


def test_the_bounds_of_the_grid() -> None:
    plan = plan_of(TANH, PLAIN)
    run(plan)

    def stay(kernel: Kernel) -> None:
        kernel.body[:] = [
            one for one in kernel.body if not (isinstance(one, Branch) and one.body == [Leave()])
        ]

    with pytest.raises(DeviceError, match="out of bounds"):
        run(spoiled(plan, stay))


def test_a_guard() -> None:
    plan = plan_of(LAYERS, PLAIN)

    def trust(kernel: Kernel) -> None:
        for item in expressions(kernel):
            if item.op == "guarded" and item.operands[1].op == "load":
                item.operands = (const(True), *item.operands[1:])

    with pytest.raises(DeviceError, match="reads 'src' out of bounds"):
        run(spoiled(plan, trust))


def test_some_weights() -> None:
    """A constant next to others: each pointer has bounds of its own."""
    plan = plan_of(LAYERS, PLAIN)
    first, *others = plan.launches
    arguments = [*first.arguments]
    for number, use in enumerate(arguments):
        if isinstance(use, BufferUse) and use.buffer == CONSTANTS:
            assert use.elements is not None
            arguments[number] = use._replace(elements=use.elements - 4)
    with pytest.raises(DeviceError, match="out of bounds"):
        run(replace(plan, launches=(first._replace(arguments=tuple(arguments)), *others)))


def test_a_launch() -> None:
    plan = plan_of(LAYERS, PLAIN)
    with pytest.raises(DeviceError, match="reads uninitialized memory"):
        run(replace(plan, launches=plan.launches[1:]))


def test_some_of_a_warp() -> None:
    plan = plan_of(LAYERS.replace("12", "32"), NVIDIA, "mixed")
    run(plan, NVIDIA)

    def leave_out_some(kernel: Kernel) -> None:
        for body in blocks(kernel.body):
            for number, one in enumerate(body):
                if isinstance(one, MatrixMultiply):
                    body[number] = Branch(local_id(0) < 7, [one])

    with pytest.raises(DeviceError, match="with a partially active warp"):
        run(spoiled(plan, leave_out_some), NVIDIA)
