"""Plans for tuning: single nodes with several kernel choices, to be timed alone and compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from fourfold.codegen.context import KernelOptions, NodeContext
from fourfold.codegen.language import Language
from fourfold.codegen.location import Location
from fourfold.compiler.lower.assemble import PlanDraft, assemble
from fourfold.compiler.lower.bind import Allocation, Bound, bind_kernel, memory_uses, value_bytes
from fourfold.compiler.lower.constants import Constants
from fourfold.compiler.lower.kernels import Built, KernelChoice, build_node, node_contexts
from fourfold.compiler.lower.locations import choose_locations
from fourfold.compiler.lower.one_launch import as_stages
from fourfold.compiler.lower.specialise import specialise_for
from fourfold.device import DeviceInfo
from fourfold.graph import Graph
from fourfold.plan import ARENA, Buffer, Plan
from fourfold.types import DType

ARENA_ALIGNMENT = 256
REPEATS = 20
Candidates = Mapping[str, list[KernelChoice]]


@dataclass(frozen=True)
class Extent:
    """The extent of a value in the arena of trials, and its element type."""

    offset: int
    bytes: int
    dtype: DType


@dataclass(frozen=True)
class Trial:
    """One kernel choice for one node: its launches in a plan, and the output it writes."""

    way: str
    launches: range
    output: Extent


@dataclass(frozen=True, eq=False)
class Trials:
    """A plan of trials, the trials of every key, and all values that they read and write."""

    plan: Plan
    of: Mapping[str, list[Trial]]
    values: tuple[Extent, ...]
    repeats: int  # repetitions of each trial, as stages of one launch


@dataclass(frozen=True)
class _Tried:
    """A node built with one kernel choice: its key, the choice, and its kernels among all."""

    key: str
    way: str
    output: str
    kernels: range


def plan_trials(
    graph: Graph, device: DeviceInfo, options: KernelOptions, candidates: Candidates
) -> Trials:
    """Return a plan of nodes with several kernel choices, to be timed alone: nothing shares memory.

    `candidates` maps computations (`NodeContext.key`) to the kernel choices to try.
    """
    graph, target, language = specialise_for(graph, device, options)
    locations = choose_locations(graph, target.options)
    built, tried = _build(node_contexts(graph, locations, target), candidates)
    allocation, constants = _allocate_separately(graph, built, locations), Constants(graph)
    draft = PlanDraft(
        name="trials",
        bound=tuple(bind_kernel(item, target.device, allocation, constants) for item in built),
        buffers=(
            Buffer("arena", "arena", allocation.arena),
            Buffer("constants", "constants", 0),
        ),
    )
    repeats = 1
    if _can_join(draft.bound, language, target.device):
        # The fastest kernel alone need not be the fastest as a stage of one launch.
        repeats, stages = REPEATS, as_stages(draft.bound)
        runs = tuple(stages[one.kernels.start : one.kernels.stop] * repeats for one in tried)
        draft = replace(draft, runs=runs)
        tried = [replace(one, kernels=range(n, n + 1)) for n, one in enumerate(tried)]
    extents = {
        root: Extent(start, value_bytes(graph, locations[root], root), locations[root].dtype)
        for root, (_, start) in allocation.buffers.items()
        if root in locations
    }
    trials: dict[str, list[Trial]] = {}
    for one in tried:
        output = extents[locations[one.output].root]
        trials.setdefault(one.key, []).append(Trial(one.way, one.kernels, output))
    plan = assemble(draft, constants, language, target)
    return Trials(plan, trials, tuple(extents.values()), repeats)


def _build(
    contexts: Iterable[NodeContext], candidates: Mapping[str, list[KernelChoice]]
) -> tuple[list[Built], list[_Tried]]:
    """Build the kernels of all candidates, once per key."""
    built: list[Built] = []
    tried: list[_Tried] = []
    seen: set[str] = set()
    for context in contexts:
        if context.key in candidates and context.key not in seen:
            seen.add(context.key)
            for choice in candidates[context.key]:
                first = len(built)
                built += build_node(context, choice)
                kernels, output = range(first, len(built)), context.node.outputs[0]
                tried.append(_Tried(context.key, str(choice), output, kernels))
    return built, tried


def _can_join(bound: Sequence[Bound], language: Language, device: DeviceInfo) -> bool:
    """Return whether trials can be stages of one launch, on a device where plans are one launch."""
    persistent = language.persistent
    if persistent is None or not device.resident:
        return False
    return persistent.refuses(as_stages(bound), device) is None


def _allocate_separately(
    graph: Graph, built: list[Built], locations: dict[str, Location]
) -> Allocation:
    """Allocate every value at its own offset in the arena, including inputs and outputs."""
    sizes: dict[str, int] = {}
    for _, root, size in memory_uses(graph, built, locations):
        sizes[root] = max(size, sizes.get(root, 0))
    allocation: dict[str, tuple[int, int]] = {}
    end = 0
    for root, size in sizes.items():
        allocation[root] = (ARENA, end)
        end += -(-size // ARENA_ALIGNMENT) * ARENA_ALIGNMENT
    return Allocation(allocation, end)
