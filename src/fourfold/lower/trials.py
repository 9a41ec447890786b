"""Plans for tuning: single nodes in several ways, to be timed alone and compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate

from fourfold.device import DeviceInfo
from fourfold.graph import Graph
from fourfold.kernel.place import Place
from fourfold.kernel.site import Options, Site
from fourfold.lower.assemble import (
    ARENA,
    CONSTANTS,
    Constants,
    Homes,
    Texts,
    make_launch,
    memory_uses,
    value_bytes,
)
from fourfold.lower.launches import Built, Way, build_site, sites
from fourfold.lower.one_launch import Stage, join_runs, refuses_one_launch, state_bytes
from fourfold.lower.places import choose_places
from fourfold.lower.suit import suit_graph, suited_options
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
        if root in places
    }
    ends = list(accumulate(len(items) for *_, items in tried))
    runs = [range(end - len(items), end) for end, (*_, items) in zip(ends, tried, strict=True)]
    buffers = [Buffer("arena", "arena", homes.arena), Buffer("constants", "constants", 0)]
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
    for (key, way, site, _), run in zip(tried, runs, strict=True):
        span = extents[places[site.node.outputs[0]].root]
        trials.setdefault(key, []).append(Trial(str(way), run, span))
    blob = constants.blob()
    buffers[CONSTANTS] = Buffer("constants", "constants", blob.nbytes)
    program, precision = Program(text, texts.options), options.precision
    plan = Plan("trials", program, tuple(buffers), launches, (), (), blob, precision)
    return Trials(plan, trials, tuple(extents.values()), repeats)


def _apart(graph: Graph, built: list[Built], places: dict[str, Place]) -> Homes:
    """Every value at a place of its own in the arena, inputs and outputs too."""
    sizes: dict[str, int] = {}
    for _, root, size in memory_uses(graph, built, places):
        sizes[root] = max(size, sizes.get(root, 0))
    homes: dict[str, tuple[int, int]] = {}
    end = 0
    for root, size in sizes.items():
        homes[root] = (ARENA, end)
        end += -(-size // ARENA_ALIGNMENT) * ARENA_ALIGNMENT
    return Homes(homes, end)
