"""Passes for files fuse nothing, preserve the results, and report what they changed."""

from __future__ import annotations

import pytest
from random_graphs import Random, assert_equal
from small_networks import small_network

from fourfold.compiler.rewrite import PIPELINE, WRITABLE, check
from fourfold.export.optimize.passes import PassResult, fuse, run_passes, simplify


def ignore(name: str) -> None:
    """Ignore a progress report."""


def test_scales_and_shifts_become_part_of_the_weights() -> None:
    graph, results = simplify(small_network(), True, ignore)
    assert [node.name for node in graph.nodes if node.op in ("mul", "add")] == ["twice"]
    (folded,) = [one for one in results if one.name == "fold_scales"]
    assert folded.changes == {"add": -1, "mul": -1}


def test_they_stay_where_they_are_not_to_be_folded() -> None:
    graph, results = simplify(small_network(), False, ignore)
    assert [node.op for node in graph.nodes].count("mul") == 2
    assert "fold_scales" not in {one.name for one in results}


def test_changes_of_a_pass_are_described() -> None:
    result = PassResult("fold", 9, 6, {"add": -1, "mul": -2, "reshape": 1})
    assert result.summary == "1 add and 2 mul fewer, 1 reshape more"
    assert PassResult("fold", 9, 9, {}).summary == ""


def test_each_pass_is_reported() -> None:
    told: list[str] = []
    run_passes(small_network(), WRITABLE, told.append)
    assert told == [run.__name__ for run in WRITABLE]


def test_they_stand_in_the_order_of_all_passes() -> None:
    places = [PIPELINE.index(run) for run in WRITABLE]
    assert places == sorted(places)


def test_fusing_is_counted_for_prepared_files() -> None:
    results = fuse(small_network(), ignore)
    assert results[-1].after < results[0].before


@pytest.mark.parametrize("seed", range(40))
def test_graphs_keep_their_meaning_and_have_no_tails(seed: int) -> None:
    graph = Random(seed).graph(size=4 + seed)
    simple, _ = simplify(graph, True, ignore)
    check(simple)
    assert not any(node.tail for node in simple.nodes)
    assert_equal(graph, simple, tolerance=2e-4)
