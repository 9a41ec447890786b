"""Stages of one launch, without a GPU to run them: when groups meet, and what a stage touches."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, combinations, pairwise
from unittest import mock

import numpy as np

from fourfold.codegen.c_style.grid_barrier import grid_barrier
from fourfold.codegen.context import KernelOptions, Scratch
from fourfold.codegen.location import Layout, Location, region_location
from fourfold.codegen.opencl.dialect import OPENCL
from fourfold.codegen.stage import Stage
from fourfold.compiler import lower
from fourfold.compiler.lower import chosen_kernels
from fourfold.device import DeviceInfo
from fourfold.graph import Graph, Node
from fourfold.ops.concat import Concat
from fourfold.plan import Plan
from fourfold.types import TensorType


@dataclass(frozen=True)
class Shared:
    """A plan as one launch, its stages in the order of the table, and what they are made of."""

    plan: Plan
    stages: Sequence[Stage]
    graph: Graph
    locations: Mapping[str, Location]
    nodes: Mapping[int, Node]  # by the kernel's id; inputs are fetched by kernels that have none
    words: Mapping[int, str]  # by the kernel's id: what it does

    def said(self, stage: Stage) -> str:
        """What a stage does, in words."""
        return self.words[id(stage.kernel)]

    @property
    def barriers(self) -> list[tuple[int, int]]:
        """After which stage groups arrive, and before which one they wait for it."""
        found, arrived = [], None
        for number, stage in enumerate(self.stages):
            if stage.awaits and arrived is not None:
                found.append((arrived, number))
                arrived = None
            if stage.arrives and number + 1 < len(self.stages):
                assert arrived is None, "groups arrive twice, and wait once"
                arrived = number
        assert arrived is None, "nobody waits for the last barrier"
        return found

    @property
    def at_once(self) -> Iterator[tuple[int, int]]:
        """Pairs of stages with no barrier between them."""
        barriers = self.barriers
        for one, other in combinations(range(len(self.stages)), 2):
            if not any(one <= arrive and wait <= other for arrive, wait in barriers):
                yield one, other


def share(graph: Graph, device: DeviceInfo, options: KernelOptions) -> Shared:
    """The graph as stages that groups of a device share."""
    with (
        mock.patch.object(lower, "assemble", wraps=lower.assemble) as assembled,
        mock.patch.object(chosen_kernels, "Memory", wraps=chosen_kernels.Memory) as memory,
    ):
        plan = lower.make_plan(graph, device, replace(options, form="one"))
    assert len(plan.launches) == 1
    suited, built, places = memory.call_args.args[:3]
    nodes, draft = {id(item.kernel): item.node for item in built}, assembled.call_args.args[0]
    words = {id(item.kernel): item.launch.node for item in draft.bound}
    return Shared(plan, draft.runs[0], suited, places, nodes, words)


def conflicts(shared: Shared) -> list[str]:
    """Stages that may run at once although one of them writes what the other touches."""
    touched = [_touched(shared, stage) for stage in shared.stages]
    return [
        f"{shared.said(shared.stages[one])} and {shared.said(shared.stages[other])}"
        for one, other in shared.at_once
        for own, writes in touched[one]
        for its, also in touched[other]
        if (writes or also) and own[0] == its[0] and _overlap(own[1], its[1])
    ]


Bytes = tuple[int, np.ndarray]  # a buffer, and pieces of it: from where to where


def _overlap(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether pieces meet; the pieces of each are apart from each other, and sorted."""
    behind = np.searchsorted(other[:, 1], one[:, 0], side="right")
    known = behind < len(other)
    return bool((other[behind[known], 0] < one[known, 1]).any())


def _touched(shared: Shared, stage: Stage) -> list[tuple[Bytes, bool]]:
    """The bytes behind each pointer of a stage that lead to values, and whether it writes there."""
    found = []
    for argument, use in zip(stage.kernel.buffers, stage.buffers, strict=True):
        memory, size = argument.memory, argument.pointer.dtype.size
        if isinstance(memory, int):  # a stage that fetches an input touches all of two buffers
            pieces = np.array([[0, shared.plan.buffers[use.buffer].bytes]])
        elif isinstance(memory, Scratch):
            start = use.offset * size
            pieces = np.array([[start, start + memory.bytes]])
        elif isinstance(memory, Location) and memory.root in shared.locations:
            type_ = _type_at(shared, stage, memory, argument.pointer.writable)
            pieces = _pieces(type_, memory) - memory.offset
            pieces = (pieces + use.offset) * memory.dtype.size
        else:
            continue
        found.append(((use.buffer, pieces), argument.pointer.writable))
    return found


def _type_at(shared: Shared, stage: Stage, place: Location, writes: bool) -> TensorType:
    """What a node has at a place: one of its values, or the part of a joined one that it copies."""
    node, types = shared.nodes[id(stage.kernel)], shared.graph.types
    whole = node.outputs[0]
    if writes and stage.kernel.title == "concat_copy":
        assert isinstance(node.attributes, Concat)
        parts, axis = [types[str(name)] for name in node.inputs], node.attributes.axis
        starts = accumulate((part.shape[axis] for part in parts), initial=0)
        found = (
            part
            for part, start in zip(parts, starts, strict=False)
            if region_location(shared.locations[whole], types[whole], part, axis, start) == place
        )
    else:
        names = (*node.outputs, *node.reads)
        found = (types[name] for name in names if shared.locations.get(name) == place)
    return next(found)


def _pieces(type_: TensorType, place: Location) -> np.ndarray:
    """The elements of a value in the memory of its root, as pieces from where to where."""
    if place.layout is Layout.ROWS:
        starts, length = np.arange(type_.pixels) * place.pitch, type_.channels
    else:
        starts, length = np.arange(type_.slices) * place.pitch * 4, type_.pixels * 4
    starts = starts + place.offset
    return np.stack([starts, starts + length], axis=1)


def in_some_order(shared: Shared, generator: np.random.Generator) -> list[int]:
    """The stages in an order that the barriers allow, drawn at random."""
    apart = {*shared.at_once}
    left, order = [*range(len(shared.stages))], []
    while left:
        ready = [
            number
            for number in left
            if all((other, number) in apart for other in left if other < number)
        ]
        order.append(int(generator.choice(ready)))
        left.remove(order[-1])
    return order


def as_list(shared: Shared, listed: Plan, order: Sequence[int]) -> Plan:
    """The stages as launches, in some order and in the memory that they have as one launch."""
    entries = dict(zip(shared.nodes, listed.launches, strict=True))
    stages = [shared.stages[number] for number in order]
    launches = tuple(
        entries[id(stage.kernel)]._replace(arguments=stage.arguments) for stage in stages
    )
    buffers = (shared.plan.buffers[0], *listed.buffers[1:])
    return replace(listed, launches=launches, buffers=buffers)


# What a group does by itself: it never waits, since others are in another launch.
_ALONE = """
typedef struct {
    __global int *state;
    __global uint *host;
    uint phase;
    int due;
} waiting;

static waiting begin(__global int *state, __global uint *host)
{
    waiting others = { state, host, 0, 0 };
    return others;
}

static void await_others(waiting *others)
{
    others->due = 0;
}

static void arrive(waiting *others, int group, int groups)
{
    barrier(CLK_LOCAL_MEM_FENCE);
}

static void meet_beside(int seat, int items)
{
    barrier(CLK_LOCAL_MEM_FENCE);
}
"""


def cuts(shared: Shared) -> list[int]:
    """Where levels begin among the stages, and where the last one ends."""
    return [0, *(wait for _, wait in shared.barriers), len(shared.stages)]


def level_by_level(shared: Shared) -> Plan:
    """The persistent kernel once for each level, so that the end of a launch is the barrier."""
    plan, (launch,) = shared.plan, shared.plan.launches
    assert grid_barrier(OPENCL) in plan.program.text
    *others, _, start = launch.arguments
    assert isinstance(start, int)
    stride = table_stride(plan) * 4
    return replace(
        plan,
        program=plan.program._replace(text=plan.program.text.replace(grid_barrier(OPENCL), _ALONE)),
        launches=tuple(
            launch._replace(arguments=(*others, end - first, start + first * stride), stages=2)
            for first, end in pairwise(cuts(shared))
        ),
    )


def table_stride(plan: Plan) -> int:
    """Numbers in a row of the plan's table."""
    match = re.search(r"__local int rows\[(\d+)\]", plan.program.text)
    assert match is not None
    return int(match[1]) // 2
