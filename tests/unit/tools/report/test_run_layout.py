"""Layered layouts: nodes are below their inputs, do not overlap, and main paths are straight."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from fourfold.tools.report.run_report.layout import (
    HEIGHT,
    LAYER_GAP,
    NODE_GAP,
    GraphLayout,
    layered_layout,
)

Pairs = list[tuple[int, int]]


def residual(blocks: int) -> tuple[list[float], Pairs]:
    """Return a chain of blocks: two nodes and a shortcut around them."""
    edges: Pairs = []
    for block in range(blocks):
        first = 3 * block
        edges += [(first, first + 1), (first + 1, first + 2), (first + 2, first + 3)]
        edges += [(first, first + 3)]
    return [120.0 + 60 * (node % 2) for node in range(3 * blocks + 1)], edges


def random_graph(nodes: int, seed: int) -> tuple[list[float], Pairs]:
    random = np.random.default_rng(seed)
    edges = {
        (int(random.integers(max(0, node - 9), node)), node)
        for node in range(1, nodes)
        for _ in range(int(random.integers(1, 4)))
    }
    return [float(width) for width in random.integers(96, 260, nodes)], sorted(edges)


def check(layout: GraphLayout, widths: list[float], edges: Pairs) -> None:
    """Check the rules that every layout must follow."""
    for source, target in edges:
        assert layout.nodes[target][1] >= layout.nodes[source][1] + HEIGHT
    rows: dict[float, list[int]] = {}
    for node, (_, y) in enumerate(layout.nodes):
        rows.setdefault(y, []).append(node)
    for row in rows.values():
        for left, right in pairwise(sorted(row, key=lambda node: layout.nodes[node][0])):
            between = layout.nodes[right][0] - layout.nodes[left][0]
            assert between >= (widths[left] + widths[right]) / 2 + NODE_GAP - 0.3
    for (source, target), points in zip(edges, layout.edges, strict=True):
        assert points[0] == (layout.nodes[source][0], layout.nodes[source][1] + HEIGHT)
        assert points[-1] == layout.nodes[target]


@pytest.mark.parametrize("seed", range(5))
def test_nodes_are_below_their_inputs_and_do_not_overlap(seed: int) -> None:
    widths, edges = random_graph(60, seed)
    check(layered_layout(widths, edges), widths, edges)


def test_several_hundred_nodes_have_a_layout() -> None:
    widths, edges = random_graph(400, 7)
    check(layered_layout(widths, edges), widths, edges)


def test_a_chain_with_shortcuts_is_straight() -> None:
    widths, edges = residual(12)
    layout = layered_layout(widths, edges)
    check(layout, widths, edges)
    assert np.ptp([x for x, _ in layout.nodes]) < 4


def test_a_shortcut_is_one_straight_line_next_to_the_nodes() -> None:
    widths, edges = residual(1)
    points = layered_layout(widths, edges).edges[edges.index((0, 3))]
    assert len({x for x, _ in points[1:-1]}) == 1
    assert abs(points[1][0] - points[0][0]) > max(widths) / 2


def test_branches_do_not_cross() -> None:
    edges = [(0, 1), (0, 2), (0, 3), (3, 4), (2, 5), (1, 6), (4, 7), (5, 7), (6, 7)]
    layout = layered_layout([100.0] * 8, edges)
    order = [layout.nodes[node][0] for node in (1, 2, 3)]
    below = [layout.nodes[node][0] for node in (6, 5, 4)]
    assert np.argsort(order).tolist() == np.argsort(below).tolist()


def test_an_empty_graph_has_a_layout() -> None:
    assert layered_layout([], []) == GraphLayout((), ())


def test_nodes_on_a_shortcut_leave_the_main_path_straight() -> None:
    """Each block reads its input through two nodes, and through one node next to them."""
    edges: Pairs = []
    for first in range(0, 32, 4):
        beside, up, down, joined = first + 1, first + 2, first + 3, first + 4
        edges += [(first, beside), (first, up), (up, down), (down, joined), (beside, joined)]
    widths = [200.0] * 33
    layout = layered_layout(widths, edges)
    check(layout, widths, edges)
    main = [layout.nodes[node][0] for node in range(33) if node % 4 != 1]
    assert np.ptp(main) < 100  # for nodes that are 200 wide


def test_late_inputs_are_placed_near_their_readers() -> None:
    """Each step of a chain reads its own slice: the fourth slice is read in the fourth step."""
    chain, slices = range(1, 9), range(9, 17)
    edges = [(0, 1), *pairwise(chain), *((0, one) for one in slices)]
    edges += [(one, step) for one, step in zip(slices, chain, strict=True)]
    renamed = {old: new for new, old in enumerate([0, *slices, *chain])}
    edges = [(renamed[a], renamed[b]) for a, b in edges]
    layout = layered_layout([100.0] * 17, edges)
    for one, step in zip(slices, chain, strict=True):
        above, below = layout.nodes[renamed[one]][1], layout.nodes[renamed[step]][1]
        assert below - above == HEIGHT + LAYER_GAP
