"""What there is to search: each thing computed once, with the ways worth timing in a good order."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from fourfold.device import DeviceInfo
from fourfold.graph import Graph
from fourfold.kernel.site import Options, Site
from fourfold.lower.launches import Way, choose_way, is_free, sites, variants_of
from fourfold.lower.places import choose_places
from fourfold.lower.suit import suit_graph, suited_options
from fourfold.ops import registry

_NUMBERS = re.compile(r"\d+")


@dataclass(frozen=True)
class Search:
    """One thing computed: its key, a title for people, and the ways to try, the default first."""

    key: str
    title: str
    ways: tuple[Way, ...]


class Known(NamedTuple):
    """What earlier searches found: the ways by key, and how many candidates they tried."""

    ways: Mapping[str, str]
    tried: Mapping[str, int]


def searches(
    graph: Graph, device: DeviceInfo, options: Options, known: Known, limit: int
) -> Iterator[Search]:
    """Every distinct thing that a graph computes for which there is a way to try that was not."""
    seen: set[str] = set()
    options = suited_options(graph, options, device)
    graph = suit_graph(graph, device, options)
    for site in sites(graph, choose_places(graph, options), device, options):
        if site.key in seen or is_free(site):
            continue
        seen.add(site.key)
        default = choose_way(site, {})
        if isinstance(default, Way):
            title = f"{site.node.op} {site.input} -> {site.output}"
            ways = tuple(_ways(site, default, known, limit))
            if ways:
                yield Search(site.key, title, ways)


def _ways(site: Site, default: Way, known: Known, limit: int) -> list[Way]:
    """The default, the best until now, then the promising ones in order, the first of each variant
    before others, from where an earlier search stopped; what was best for the most similar thing
    goes first. None if none is new.
    """
    variants = [v for v in variants_of(registry()[site.node.op]) if v.refuses(site) is None]
    listed = [[Way(variant, choice) for choice in variant.choices(site)] for variant in variants]
    first = [ways[0] for ways in listed if ways]
    ordered = [*first, *(way for ways in listed for way in ways[1:])]
    best = known.ways.get(site.key)
    similar = _most_similar(site.key, known.ways) if best is None else None
    ordered.sort(key=lambda way: str(way) != similar)
    old = {str(default): default, **{str(way): way for way in ordered if str(way) == best}}
    others = [way for way in ordered if str(way) != str(default)]
    fresh = others[known.tried.get(site.key, 0) : limit]
    new = {str(way): way for way in fresh if str(way) not in old}
    return [*old.values(), *new.values()] if new else []


def _most_similar(key: str, known: Mapping[str, str]) -> str | None:
    """The way of the known key that differs from this one in numbers only, and by the least."""
    shape = _NUMBERS.sub("#", key)
    numbers = [int(text) for text in _NUMBERS.findall(key)]
    best: tuple[float, str] | None = None
    for other, way in known.items():
        if _NUMBERS.sub("#", other) == shape:
            theirs = [int(text) for text in _NUMBERS.findall(other)]
            ratios = (
                max(a, b, 1) / max(min(a, b), 1) for a, b in zip(numbers, theirs, strict=True)
            )
            distance = sum(ratio - 1.0 for ratio in ratios)
            if best is None or distance < best[0]:
                best = (distance, way)
    return None if best is None else best[1]
