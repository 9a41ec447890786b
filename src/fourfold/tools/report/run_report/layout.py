"""Layered layout of a graph from top to bottom, with few crossings and straight lines (Sugiyama's
method).

Each node lies below the nodes it reads. An edge over several layers has a bend in each of them,
which is ordered and positioned in its layer like a narrow node.
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
STEADY, LOOSE = 400.0, 20.0  # weights of nodes on the main line and of others; bends have 1
Pair = tuple[int, int]
Point = tuple[float, float]


@dataclass(frozen=True)
class GraphLayout:
    """The middle of each node's upper edge, and the points of each edge."""

    nodes: tuple[Point, ...]
    edges: tuple[tuple[Point, ...], ...]


@dataclass
class _Layered:
    """Nodes and bends by layers; bends are numbered after the nodes."""

    count: int
    layers: list[list[int]]
    widths: list[float]
    above: list[list[int]]
    below: list[list[int]]
    chains: list[list[int]]  # of each edge: its source, its bends, its target
    slack: list[int]  # number of layers that each could be moved by


def layered_layout(widths: Sequence[float], edges: Sequence[Pair]) -> GraphLayout:
    """Return the layout of an acyclic graph, whose nodes follow those that they read."""
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
    """Return the points of an edge: the bottom of a node, both ends of each bend, and the top of a
    node.
    """
    first, *bends, last = chain
    points = [(across[first], down[first] + HEIGHT)]
    for bend in bends:
        points += [(across[bend], down[bend]), (across[bend], down[bend] + HEIGHT)]
    return tuple((round(x, 1), round(y, 1)) for x, y in (*points, (across[last], down[last])))


def _find_layers(count: int, edges: Sequence[Pair]) -> tuple[list[int], list[int]]:
    """Return the layer of each node, and the number of layers it could be moved by.

    Each node starts in the highest layer possible. Nodes with no more edges above than below then
    move down to their readers, which does not lengthen the edges in total and narrows layers.
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
    """Sort layers by the mean position of neighbours, alternately down and up; keep the best."""
    best, least = [list(layer) for layer in graph.layers], _crossings(graph)
    for sweep in range(ORDER_SWEEPS):
        if not least:
            break
        down = sweep % 2 == 0
        near = graph.above if down else graph.below
        for number in range(1, len(graph.layers)) if down else range(len(graph.layers) - 2, -1, -1):
            other = graph.layers[number - 1 if down else number + 1]
            position = {node: at for at, node in enumerate(other)}
            layer = graph.layers[number]
            current = {node: at * len(other) / len(layer) for at, node in enumerate(layer)}
            layer.sort(key=lambda node: _mean_position(near[node], position, current[node]))
        crossings = _crossings(graph)
        if crossings < least:
            best, least = [list(layer) for layer in graph.layers], crossings
    graph.layers = best


def _mean_position(near: Sequence[int], position: dict[int, int], current: float) -> float:
    return fmean(position[node] for node in near) if near else current


def _crossings(graph: _Layered) -> int:
    """Return the number of crossings of edges between neighbouring layers."""
    total = 0
    for upper, lower in pairwise(graph.layers):
        position = {node: at for at, node in enumerate(lower)}
        seen: list[int] = []
        for node in upper:
            for end in sorted(position[one] for one in graph.below[node]):
                at = bisect_right(seen, end)
                total += len(seen) - at
                seen.insert(at, end)
    return total


def _place(graph: _Layered) -> list[float]:
    """Move each node as near to its neighbours as its layer allows, alternately up and down; last
    below the nodes that it reads.
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
    """Return the best position of a node for its neighbours on one side: those on the main line,
    which have the least slack, or else bends of edges.
    """
    real = [one for one in near if one < graph.count] or near
    least = min(graph.slack[one] for one in real)
    return median(across[one] for one in real if graph.slack[one] == least)


def _straighten(graph: _Layered, across: list[float]) -> None:
    """Align the bends of each edge vertically at the outermost one, if there is space."""
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
        positions = sorted({across[bend] for bend in bends})
        for x in (positions[-1], positions[0]) if len(positions) > 1 else ():
            if all(fits(bend, x) for bend in bends):
                for bend in bends:
                    across[bend] = x
                break


def _settle(
    graph: _Layered, layer: Sequence[int], across: list[float], wanted: Callable[[int], float]
) -> None:
    """Position a layer in its order, each node as near as possible to its best position: the least
    weighted sum of squares, found by merging neighbours that push each other.
    """
    starts, at = [], 0.0  # smallest distance of each node from the first
    for node, before in zip(layer, [None, *layer[:-1]], strict=True):
        if before is not None:
            at += (graph.widths[before] + graph.widths[node]) / 2 + NODE_GAP
        starts.append(at)
    blocks: list[tuple[float, float, int]] = []  # weighted sum of positions, weight, count
    for node, start in zip(layer, starts, strict=True):
        loose = LOOSE if graph.slack[node] else STEADY
        weight = 1.0 if node >= graph.count else loose
        block = (weight * (wanted(node) - start), weight, 1)
        while blocks and blocks[-1][0] / blocks[-1][1] > block[0] / block[1]:
            total, heavy, many = blocks.pop()
            block = (block[0] + total, block[1] + heavy, block[2] + many)
        blocks.append(block)
    offsets = (total / weight for total, weight, many in blocks for _ in range(many))
    for node, start, offset in zip(layer, starts, offsets, strict=True):
        across[node] = offset + start
