"""Stages of one launch, analyzed without a GPU: barriers, and the memory that a stage accesses."""

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
    """A plan as one launch, with its stages in table order and their nodes."""

    plan: Plan
    stages: Sequence[Stage]
    graph: Graph
    locations: Mapping[str, Location]
    nodes: Mapping[int, Node]  # by kernel id; kernels that fetch inputs have no node
    words: Mapping[int, str]  # by kernel id: description

    def said(self, stage: Stage) -> str:
        """Return the description of a stage."""
        return self.words[id(stage.kernel)]

    @property
    def barriers(self) -> list[tuple[int, int]]:
        """Pairs of the stage after which groups arrive and the stage before which they wait."""
        result, arrived = [], None
        for number, stage in enumerate(self.stages):
            if stage.awaits and arrived is not None:
                result.append((arrived, number))
                arrived = None
            if stage.arrives and number + 1 < len(self.stages):
                assert arrived is None, "groups arrive twice, and wait once"
                arrived = number
        assert arrived is None, "nobody waits for the last barrier"
        return result

    @property
    def at_once(self) -> Iterator[tuple[int, int]]:
        """Yield pairs of stages with no barrier between them."""
        barriers = self.barriers
        for one, other in combinations(range(len(self.stages)), 2):
            if not any(one <= arrive and wait <= other for arrive, wait in barriers):
                yield one, other


def share(graph: Graph, device: DeviceInfo, options: KernelOptions) -> Shared:
    """Return the graph as stages shared by the groups of a device."""
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
    """List stages that may run at once although one writes memory that the other accesses."""
    touched = [_touched(shared, stage) for stage in shared.stages]
    return [
        f"{shared.said(shared.stages[one])} and {shared.said(shared.stages[other])}"
        for one, other in shared.at_once
        for own, writes in touched[one]
        for its, also in touched[other]
        if (writes or also) and own[0] == its[0] and _overlap(own[1], its[1])
    ]


Bytes = tuple[int, np.ndarray]  # a buffer, and byte ranges in it


def _overlap(one: np.ndarray, other: np.ndarray) -> bool:
    """Return True if two sorted sets of disjoint ranges overlap."""
    behind = np.searchsorted(other[:, 1], one[:, 0], side="right")
    in_range = behind < len(other)
    return bool((other[behind[in_range], 0] < one[in_range, 1]).any())


def _touched(shared: Shared, stage: Stage) -> list[tuple[Bytes, bool]]:
    """Return the bytes behind each value pointer of a stage, and whether it writes them."""
    results = []
    for argument, use in zip(stage.kernel.buffers, stage.buffers, strict=True):
        memory, size = argument.memory, argument.pointer.dtype.size
        if isinstance(memory, int):  # a stage that fetches an input accesses all of two buffers
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
        results.append(((use.buffer, pieces), argument.pointer.writable))
    return results


def _type_at(shared: Shared, stage: Stage, place: Location, writes: bool) -> TensorType:
    """Return the type of a node's value at a location, or of the part of a joined value that it
    copies.
    """
    node, types = shared.nodes[id(stage.kernel)], shared.graph.types
    joined = node.outputs[0]
    if writes and stage.kernel.title == "concat_copy":
        assert isinstance(node.attributes, Concat)
        parts, axis = [types[str(name)] for name in node.inputs], node.attributes.axis
        starts = accumulate((part.shape[axis] for part in parts), initial=0)
        result = (
            part
            for part, start in zip(parts, starts, strict=False)
            if region_location(shared.locations[joined], types[joined], part, axis, start) == place
        )
    else:
        names = (*node.outputs, *node.reads)
        result = (types[name] for name in names if shared.locations.get(name) == place)
    return next(result)


def _pieces(type_: TensorType, place: Location) -> np.ndarray:
    """Return the byte ranges of a value's elements in the memory of its root."""
    if place.layout is Layout.ROWS:
        starts, length = np.arange(type_.pixels) * place.pitch, type_.channels
    else:
        starts, length = np.arange(type_.slices) * place.pitch * 4, type_.pixels * 4
    starts = starts + place.offset
    return np.stack([starts, starts + length], axis=1)


def in_some_order(shared: Shared, generator: np.random.Generator) -> list[int]:
    """Return the stages in a random order that the barriers allow."""
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
    """Return the stages as launches, in some order and with the memory layout of one launch."""
    entries = dict(zip(shared.nodes, listed.launches, strict=True))
    stages = [shared.stages[number] for number in order]
    launches = tuple(
        entries[id(stage.kernel)]._replace(arguments=stage.arguments) for stage in stages
    )
    buffers = (shared.plan.buffers[0], *listed.buffers[1:])
    return replace(listed, launches=launches, buffers=buffers)


# Replacement functions for a single group, which never waits: others are in another launch.
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
    """Return the stage indices where levels begin, and where the last one ends."""
    return [0, *(wait for _, wait in shared.barriers), len(shared.stages)]


def level_by_level(shared: Shared) -> Plan:
    """Return a plan with one launch of the persistent kernel per level, so that launches act as
    barriers.
    """
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
    """Return the number of words in a row of the plan's table."""
    match = re.search(r"__local int rows\[(\d+)\]", plan.program.text)
    assert match is not None
    return int(match[1]) // 2
