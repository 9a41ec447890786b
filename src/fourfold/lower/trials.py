"""Plans for tuning: single nodes in several ways, to be timed alone and compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fourfold.device import DeviceInfo
from fourfold.graph import Graph
from fourfold.kernel.place import Place
from fourfold.kernel.site import Options, Site
from fourfold.lower import BUILD_OPTIONS
from fourfold.lower.assemble import ARENA, Constants, Homes, Texts, make_launch, value_bytes
from fourfold.lower.launches import Built, Way, build_site, sites
from fourfold.lower.places import choose_places
from fourfold.lower.suit import suit_graph, suited_options
from fourfold.plan import Buffer, Plan, Program
from fourfold.types import DType

ARENA_ALIGNMENT = 256


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


def plan_trials(
    graph: Graph,
    device: DeviceInfo,
    options: Options,
    wanted: Mapping[str, list[Way]],
) -> Trials:
    """A plan that holds nodes in several ways, to be timed alone: nothing shares memory in it.

    `wanted` maps what is computed (`Site.key`) to the ways to try.
    """
    options = suited_options(graph, options, device)
    graph = suit_graph(graph, device, options)
    places = choose_places(graph, options)
    tried: list[tuple[str, Way, Site, list[Built]]] = []
    seen: set[str] = set()
    for site in sites(graph, places, device, options):
        if site.key in wanted and site.key not in seen:
            seen.add(site.key)
            tried += [(site.key, way, site, build_site(site, way)) for way in wanted[site.key]]
    built = [item for *_, items in tried for item in items]
    homes = _apart(graph, built, places)
    constants, texts = Constants(graph), Texts(device, options)
    launches = tuple(make_launch(item, texts, homes, constants) for item in built)
    extents = {
        root: Extent(start, value_bytes(graph, places[root], root), places[root].dtype)
        for root, (_, start) in homes.buffers.items()
    }
    trials: dict[str, list[Trial]] = {}
    start = 0
    for key, way, site, items in tried:
        span = extents[places[site.node.outputs[0]].root]
        trials.setdefault(key, []).append(Trial(str(way), range(start, start + len(items)), span))
        start += len(items)
    blob = constants.blob()
    buffers = (Buffer("arena", "arena", homes.arena), Buffer("constants", "constants", blob.nbytes))
    program = Program(texts.text(), BUILD_OPTIONS)
    plan = Plan("trials", program, buffers, launches, (), (), blob, options.precision)
    return Trials(plan, trials, tuple(extents.values()))


def _apart(graph: Graph, built: list[Built], places: dict[str, Place]) -> Homes:
    """Every value at a place of its own in the arena, inputs and outputs too."""
    homes: dict[str, tuple[int, int]] = {}
    end = 0
    for item in built:
        for argument in item.kernel.buffers:
            memory = argument.memory
            if isinstance(memory, Place) and memory.root in places and memory.root not in homes:
                homes[memory.root] = (ARENA, end)
                size = value_bytes(graph, places[memory.root], memory.root)
                end += -(-size // ARENA_ALIGNMENT) * ARENA_ALIGNMENT
    return Homes(homes, end)
