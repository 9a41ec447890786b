"""Plans for tuning: single nodes in several ways, to be timed alone and compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate

from fourfold.device import DeviceInfo
from fourfold.graph import Graph
from fourfold.kernel.context import NodeContext, Options
from fourfold.kernel.location import Location
from fourfold.lower.assemble import (
    ARENA,
    CONSTANTS,
    Allocation,
    Constants,
    Texts,
    make_launch,
    memory_uses,
    value_bytes,
)
from fourfold.lower.kernels import Built, KernelChoice, build_node, node_contexts
from fourfold.lower.locations import choose_locations
from fourfold.lower.one_launch import Stage, join_runs, refuses_one_launch, state_bytes
from fourfold.lower.requirements import find_requirements
from fourfold.lower.specialise import specialise_graph, specialise_options
from fourfold.plan import Buffer, Plan, Program
from fourfold.types import DType

ARENA_ALIGNMENT = 256
REPEATS = 20


@dataclass(frozen=True)
class Extent:
    """Where a value lies in the arena of trials, and what its elements are."""

    offset: int
    bytes: int
    dtype: DType


@dataclass(frozen=True)
class Trial:
    """One way to run one node, as launches of a plan, and the part of the arena that it writes."""

    way: str
    launches: range
    output: Extent


@dataclass(frozen=True, eq=False)
class Trials:
    """A plan of trials, the trials of every key, and all values that they read and write."""

    plan: Plan
    of: Mapping[str, list[Trial]]
    values: tuple[Extent, ...]
    repeats: int  # how many times a trial does the same, as stages of one launch


def plan_trials(
    graph: Graph, device: DeviceInfo, options: Options, wanted: Mapping[str, list[KernelChoice]]
) -> Trials:
    """A plan that holds nodes in several ways, to be timed alone: nothing shares memory in it.

    `wanted` maps what is computed (`NodeContext.key`) to the ways to try.
    """
    options = specialise_options(graph, options, device)
    graph = specialise_graph(graph, device, options)
    locations = choose_locations(graph, options)
    tried: list[tuple[str, KernelChoice, NodeContext, list[Built]]] = []
    seen: set[str] = set()
    for context in node_contexts(graph, locations, device, options):
        if context.key in wanted and context.key not in seen:
            seen.add(context.key)
            ways = wanted[context.key]
            tried += [(context.key, way, context, build_node(context, way)) for way in ways]
    built = [item for *_, items in tried for item in items]
    allocation = _apart(graph, built, locations)
    constants, texts = Constants(graph), Texts(device, options)
    launches = tuple(make_launch(item, texts, allocation, constants) for item in built)
    extents = {
        root: Extent(start, value_bytes(graph, locations[root], root), locations[root].dtype)
        for root, (_, start) in allocation.buffers.items()
        if root in locations
    }
    ends = list(accumulate(len(items) for *_, items in tried))
    runs = [range(end - len(items), end) for end, (*_, items) in zip(ends, tried, strict=True)]
    buffers = [Buffer("arena", "arena", allocation.arena), Buffer("constants", "constants", 0)]
    text, repeats, kernels = texts.text(), 1, [item.kernel for item in built]
    if device.resident and refuses_one_launch(kernels, launches, device) is None:
        # What is best alone need not be best among others in one launch.
        repeats = REPEATS
        every = [Stage(*pair) for pair in zip(kernels, launches, strict=True)]
        stages = [[every[number] for number in run] * repeats for run in runs]
        buffers.append(Buffer("state", "state", state_bytes(max(map(len, stages)), device)))
        text, joined = join_runs(stages, constants, len(buffers), device)
        launches, text = tuple(joined), texts.head() + text
        runs = [range(number, number + 1) for number in range(len(joined))]
    trials: dict[str, list[Trial]] = {}
    for (key, way, context, _), run in zip(tried, runs, strict=True):
        span = extents[locations[context.node.outputs[0]].root]
        trials.setdefault(key, []).append(Trial(str(way), run, span))
    blob = constants.blob()
    buffers[CONSTANTS] = Buffer("constants", "constants", blob.nbytes)
    program, precision = Program(text, texts.options), options.precision
    needed = find_requirements(texts.kernels, launches, buffers, device, options)
    plan = Plan("trials", program, tuple(buffers), launches, (), (), blob, precision, needed)
    return Trials(plan, trials, tuple(extents.values()), repeats)


def _apart(graph: Graph, built: list[Built], locations: dict[str, Location]) -> Allocation:
    """Every value at a place of its own in the arena, inputs and outputs too."""
    sizes: dict[str, int] = {}
    for _, root, size in memory_uses(graph, built, locations):
        sizes[root] = max(size, sizes.get(root, 0))
    allocation: dict[str, tuple[int, int]] = {}
    end = 0
    for root, size in sizes.items():
        allocation[root] = (ARENA, end)
        end += -(-size // ARENA_ALIGNMENT) * ARENA_ALIGNMENT
    return Allocation(allocation, end)
