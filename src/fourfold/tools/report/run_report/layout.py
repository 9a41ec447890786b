"""Where the nodes of a graph are drawn: in layers from top to bottom, with few crossings and
straight lines (Sugiyama's way).

Each node lies below all that it reads. An edge over several layers gets a bend in each of them,
which takes part in the order and the placing of its layer as a narrow node.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median

HEIGHT, LAYER_GAP, NODE_GAP = 44.0, 36.0, 22.0
BEND_WIDTH = 6.0
ORDER_SWEEPS, PLACE_SWEEPS = 12, 24
STEADY, LOOSE = 400.0, 20.0  # what nodes of the main line, and others, weigh beside bends
Pair = tuple[int, int]
Point = tuple[float, float]


@dataclass(frozen=True)
class GraphLayout:
    """The middle of each node's upper edge, and the points of each edge."""

    nodes: tuple[Point, ...]
    edges: tuple[tuple[Point, ...], ...]


@dataclass
class _Layered:
    """Nodes and bends by layers; bends have the numbers behind those of nodes."""

    count: int
    layers: list[list[int]]
    widths: list[float]
    above: list[list[int]]
    below: list[list[int]]
    chains: list[list[int]]  # of each edge: its source, its bends, its target
    slack: list[int]  # how many layers each could be moved by


def layered_layout(widths: Sequence[float], edges: Sequence[Pair]) -> GraphLayout:
    """The layout of a graph without cycles, whose nodes come after those that they read."""
    if not widths:
        return GraphLayout((), ())
    graph = _with_bends(widths, edges)
    _order(graph)
    across = _place(graph)
    down = [0.0] * len(graph.widths)
    for number, layer in enumerate(graph.layers):
        for node in layer:
            down[node] = number * (HEIGHT + LAYER_GAP)
    nodes = tuple((across[node], down[node]) for node in range(graph.count))
    return GraphLayout(nodes, tuple(_points(chain, across, down) for chain in graph.chains))


def _points(
    chain: Sequence[int], across: Sequence[float], down: Sequence[float]
) -> tuple[Point, ...]:
    """From the lower edge of a node over bends, which are as high as nodes, to an upper edge."""
    first, *bends, last = chain
    points = [(across[first], down[first] + HEIGHT)]
    for bend in bends:
        points += [(across[bend], down[bend]), (across[bend], down[bend] + HEIGHT)]
    return tuple((round(x, 1), round(y, 1)) for x, y in (*points, (across[last], down[last])))


def _find_layers(count: int, edges: Sequence[Pair]) -> tuple[list[int], list[int]]:
    """The layer of each node, and how many layers it could be moved by.

    Each is as high as it can be; then those go down to their readers that have no more edges from
    above than to below, which makes no line longer in all and layers narrower.
    """
    layer, above = [0] * count, [0] * count
    below: list[list[int]] = [[] for _ in range(count)]
    for source, target in sorted(edges, key=lambda edge: edge[1]):
        layer[target] = max(layer[target], layer[source] + 1)
        below[source].append(target)
        above[target] += 1
    highest, lowest, last = list(layer), list(layer), max(layer)
    for node in reversed(range(count)):
        lowest[node] = min((lowest[target] - 1 for target in below[node]), default=last)
        if below[node] and above[node] <= len(below[node]):
            layer[node] = min(layer[target] for target in below[node]) - 1
    return layer, [low - high for low, high in zip(lowest, highest, strict=True)]


def _with_bends(widths: Sequence[float], edges: Sequence[Pair]) -> _Layered:
    layer, slack = _find_layers(len(widths), edges)
    graph = _Layered(
        count=len(widths),
        layers=[[] for _ in range(max(layer) + 1)],
        widths=list(widths),
        above=[[] for _ in widths],
        below=[[] for _ in widths],
        chains=[],
        slack=slack,
    )
    for node in range(len(widths)):
        graph.layers[layer[node]].append(node)
    for source, target in edges:
        chain = [source]
        for number in range(layer[source] + 1, layer[target]):
            chain.append(len(graph.widths))
            graph.layers[number].append(chain[-1])
            graph.widths.append(BEND_WIDTH)
            graph.slack.append(0)
            graph.above.append([])
            graph.below.append([])
        chain.append(target)
        for upper, lower in pairwise(chain):
            graph.below[upper].append(lower)
            graph.above[lower].append(upper)
        graph.chains.append(chain)
    return graph


def _order(graph: _Layered) -> None:
    """Sorts layers by the mean place of neighbours, down and up in turns, and keeps the best."""
    best, least = [list(layer) for layer in graph.layers], _crossings(graph)
    for sweep in range(ORDER_SWEEPS):
        if not least:
            break
        down = sweep % 2 == 0
        near = graph.above if down else graph.below
        for number in range(1, len(graph.layers)) if down else range(len(graph.layers) - 2, -1, -1):
            other = graph.layers[number - 1 if down else number + 1]
            place = {node: at for at, node in enumerate(other)}
            layer = graph.layers[number]
            kept = {node: at * len(other) / len(layer) for at, node in enumerate(layer)}
            layer.sort(key=lambda node: _mean_place(near[node], place, kept[node]))
        found = _crossings(graph)
        if found < least:
            best, least = [list(layer) for layer in graph.layers], found
    graph.layers = best


def _mean_place(near: Sequence[int], place: dict[int, int], kept: float) -> float:
    return fmean(place[node] for node in near) if near else kept


def _crossings(graph: _Layered) -> int:
    """Pairs of lines between neighbouring layers that cross."""
    total = 0
    for upper, lower in pairwise(graph.layers):
        place = {node: at for at, node in enumerate(lower)}
        seen: list[int] = []
        for node in upper:
            for end in sorted(place[one] for one in graph.below[node]):
                at = bisect_right(seen, end)
                total += len(seen) - at
                seen.insert(at, end)
    return total


def _place(graph: _Layered) -> list[float]:
    """Each node as near to its neighbours as its layer allows, up and down in turns; at last below
    what it reads.
    """
    across = [0.0] * len(graph.widths)
    for layer in graph.layers:
        _settle(graph, layer, across, lambda node: 0.0)
    for sweep in range(PLACE_SWEEPS):
        down = sweep % 2 == 1
        first, second = (graph.above, graph.below) if down else (graph.below, graph.above)

        def wanted(node: int) -> float:
            near = first[node] or second[node]  # noqa: B023
            return _anchor(graph, across, near) if near else across[node]

        for layer in graph.layers if down else reversed(graph.layers):
            _settle(graph, layer, across, wanted)
    _straighten(graph, across)
    left = min(across[node] - graph.widths[node] / 2 for layer in graph.layers for node in layer)
    return [round(x - left, 1) for x in across]


def _anchor(graph: _Layered, across: Sequence[float], near: Sequence[int]) -> float:
    """Where neighbours on one side would have a node: those on the main line, which have the least
    room to move between layers, or else where edges go around.
    """
    real = [one for one in near if one < graph.count] or near
    least = min(graph.slack[one] for one in real)
    return median(across[one] for one in real if graph.slack[one] == least)


def _straighten(graph: _Layered, across: list[float]) -> None:
    """Puts the bends of an edge below each other, as far out as one of them has to be, where there
    is room for that.
    """
    beside = {
        node: (layer[at - 1] if at else None, layer[at + 1] if at + 1 < len(layer) else None)
        for layer in graph.layers
        for at, node in enumerate(layer)
    }

    def fits(bend: int, x: float) -> bool:
        left, right = beside[bend]
        room = NODE_GAP - 0.5 + BEND_WIDTH / 2
        free = left is None or x - across[left] >= graph.widths[left] / 2 + room
        return free and (right is None or across[right] - x >= graph.widths[right] / 2 + room)

    for _, *bends, _ in graph.chains:
        places = sorted({across[bend] for bend in bends})
        for x in (places[-1], places[0]) if len(places) > 1 else ():
            if all(fits(bend, x) for bend in bends):
                for bend in bends:
                    across[bend] = x
                break


def _settle(
    graph: _Layered, layer: Sequence[int], across: list[float], wanted: Callable[[int], float]
) -> None:
    """Places a layer in its order, each node as near as can be to where it is wanted: the least sum
    of weighted squares, found by joining neighbours that push each other.
    """
    starts, at = [], 0.0  # how far from the first one each may be at the least
    for node, before in zip(layer, [None, *layer[:-1]], strict=True):
        if before is not None:
            at += (graph.widths[before] + graph.widths[node]) / 2 + NODE_GAP
        starts.append(at)
    blocks: list[tuple[float, float, int]] = []  # sum of weighted places, weight, how many
    for node, start in zip(layer, starts, strict=True):
        loose = LOOSE if graph.slack[node] else STEADY
        weight = 1.0 if node >= graph.count else loose
        block = (weight * (wanted(node) - start), weight, 1)
        while blocks and blocks[-1][0] / blocks[-1][1] > block[0] / block[1]:
            total, heavy, many = blocks.pop()
            block = (block[0] + total, block[1] + heavy, block[2] + many)
        blocks.append(block)
    places = (total / weight for total, weight, many in blocks for _ in range(many))
    for node, start, place in zip(layer, starts, places, strict=True):
        across[node] = place + start
