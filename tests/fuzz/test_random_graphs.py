"""Random graphs compute the same before and after rewrite passes, one by one and together."""

from __future__ import annotations

import pytest
from random_graphs import Random, assert_equal

from fourfold.compiler.rewrite import PIPELINE, check, rewrite
from fourfold.graph import Graph

GROUPS, PER_GROUP = 25, 12


def graphs(group: int) -> list[Graph]:
    seeds = range(group * PER_GROUP, (group + 1) * PER_GROUP)
    return [Random(seed).graph(size=4 + seed % 40) for seed in seeds]


@pytest.mark.parametrize("group", range(GROUPS))
def test_rewritten_graphs_compute_the_same(group: int) -> None:
    for graph in graphs(group):
        after = rewrite(graph, verify=True)
        assert_equal(graph, after)
        assert str(rewrite(after, verify=True)) == str(after)


@pytest.mark.parametrize("pass_", dict.fromkeys(PIPELINE), ids=lambda pass_: pass_.__name__)
def test_each_pass_preserves_results_and_reaches_a_fixed_point(pass_) -> None:
    for graph in graphs(GROUPS):
        after = pass_(graph)
        check(after)
        assert_equal(graph, after)
        assert str(pass_(after)) == str(after)


def test_random_graphs_are_deterministic() -> None:
    assert str(Random(3).graph(30)) == str(Random(3).graph(30))
