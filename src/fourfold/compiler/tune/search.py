"""Lists what to tune: each computation once, with the candidates worth timing in order."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from fourfold.codegen.context import KernelOptions, NodeContext
from fourfold.compiler.lower.kernels import (
    KernelChoice,
    choose_kernel,
    is_free,
    node_contexts,
    variants_of,
)
from fourfold.compiler.lower.locations import choose_locations
from fourfold.compiler.lower.specialise import specialise_for
from fourfold.device import DeviceInfo
from fourfold.graph import Graph
from fourfold.ops.base import registry

_NUMBERS = re.compile(r"\d+")


@dataclass(frozen=True)
class Search:
    """One computation: its key, a title for people, and the candidates, the default first."""

    key: str
    title: str
    candidates: tuple[KernelChoice, ...]


class Known(NamedTuple):
    """Results of earlier searches: choices by key, and how many candidates were tried."""

    choices: Mapping[str, str]
    tried: Mapping[str, int]


def searches(
    graph: Graph, device: DeviceInfo, options: KernelOptions, known: Known, limit: int
) -> Iterator[Search]:
    """Yield every distinct computation of a graph with candidates that were not tried yet."""
    seen: set[str] = set()
    graph, target, _ = specialise_for(graph, device, options)
    for context in node_contexts(graph, choose_locations(graph, target.options), target):
        if context.key in seen or is_free(context):
            continue
        seen.add(context.key)
        default = choose_kernel(context, {})
        if isinstance(default, KernelChoice):
            title = f"{context.node.op} {context.input} -> {context.output}"
            candidates = tuple(_candidates(context, default, known, limit))
            if candidates:
                yield Search(context.key, title, candidates)


def _candidates(
    context: NodeContext, default: KernelChoice, known: Known, limit: int
) -> list[KernelChoice]:
    """Return the candidates to time; empty if none is new.

    The default comes first, then the best so far, then the promising ones in order, the first of
    each variant before others, starting where an earlier search stopped. The best choice for the
    most similar computation goes first among those.
    """
    variants = [v for v in variants_of(registry()[context.node.op]) if v.refuses(context) is None]
    listed = [
        [KernelChoice(variant, choice) for choice in variant.choices(context)]
        for variant in variants
    ]
    first = [some[0] for some in listed if some]
    ordered = [*first, *(one for some in listed for one in some[1:])]
    best = known.choices.get(context.key)
    similar = _most_similar(context.key, known.choices) if best is None else None
    ordered.sort(key=lambda one: str(one) != similar)
    old = {str(default): default, **{str(one): one for one in ordered if str(one) == best}}
    others = [one for one in ordered if str(one) != str(default)]
    fresh = others[known.tried.get(context.key, 0) : limit]
    new = {str(one): one for one in fresh if str(one) not in old}
    return [*old.values(), *new.values()] if new else []


def _most_similar(key: str, known: Mapping[str, str]) -> str | None:
    """Return the choice for the known key that differs from this one least, and only in numbers."""
    shape = _NUMBERS.sub("#", key)
    numbers = [int(text) for text in _NUMBERS.findall(key)]
    best: tuple[float, str] | None = None
    for other, choice in known.items():
        if _NUMBERS.sub("#", other) == shape:
            theirs = [int(text) for text in _NUMBERS.findall(other)]
            ratios = (
                max(a, b, 1) / max(min(a, b), 1) for a, b in zip(numbers, theirs, strict=True)
            )
            distance = sum(ratio - 1.0 for ratio in ratios)
            if best is None or distance < best[0]:
                best = (distance, choice)
    return None if best is None else best[1]
