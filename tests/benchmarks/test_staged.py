"""The comparison of kernels that copy ahead with those that do not, on an interpreted GPU."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from ops.test_staged_copies import GRAPHS, ROOMY, in_halves, numbers

from fourfold.lower import specialise
from fourfold.players.cuda.boards import find_board

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

staged = pytest.importorskip("staged")


def test_launches_are_compared_with_those_they_would_replace(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(specialise, "SMALL_ARENA", -1)
    graph = in_halves(GRAPHS["few batches"])
    players = staged.players_of(graph, ROOMY, ROOMY)
    assert {"as it is", "128x128 in 2", "64x64 in 4"} <= players.keys()
    assert [*staged.players_of(graph, ROOMY, ROOMY, ["64x64 in 3"])] == ["as it is", "64x64 in 3"]
    arrays = list(numbers(graph).values())
    staged.check(players, arrays)
    times = staged.times_in_turns(players, arrays, 1)
    (row,) = staged.rows_of(players, times, graph)  # the first layer cannot copy ahead
    assert row["best"] == min(row["all"].values())
    assert row["all"].keys() == players.keys() - {"as it is"}
    staged.show("few batches", [row], sum(times["as it is"]))
    assert f"| {row['node']} |" in capsys.readouterr().out
    board = find_board("sm_90")
    assert board is not None
    assert "128x128 in 4" in staged.forms_of(graph, staged.with_more_memory(board)).popitem()[1]
    assert "128x128 in 4" not in staged.forms_of(graph, board).popitem()[1]
