"""The comparison of staged and plain kernels, on an interpreted GPU."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from halved_graphs import GRAPHS, in_halves, numbers
from ops.test_staged_copies import ROOMY
from ops.test_warpgroups import HOPPER

from fourfold.compiler.lower import specialise

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

staged = pytest.importorskip("staged")


def test_compares_launches_with_those_they_would_replace(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(specialise, "MAX_FP32_ARENA_BYTES", -1)
    graph = in_halves(GRAPHS["few batches"])
    players = staged.players_of(graph, ROOMY)
    assert {"matrix", "staged: 128x128 in 2", "staged: 64x64 in 4"} <= players.keys()
    only = staged.players_of(graph, ROOMY, ["64x64 in 3"])
    assert [*only] == ["matrix", "staged: 64x64 in 3"]
    arrays = list(numbers(graph).values())
    staged.check(players, arrays)
    times = staged.times_in_turns(players, arrays, 1)
    (row,) = staged.rows_of(players, times, graph)  # the first layer cannot copy ahead
    assert row["best"] == min(row["all"].values())
    assert row["all"].keys() == players.keys() - {"matrix"}
    staged.show("few batches", [row], sum(times["matrix"]))
    assert f"| {row['node']} |" in capsys.readouterr().out
    forms = staged.forms_of(graph, HOPPER).popitem()[1]
    assert {"staged: 128x128 in 4", "warpgroup: 64x128x32 in 4"} <= {*forms}
