"""A short version of benchmarks/store_stress.py."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="processes are not killed by signals there")
def test_many_processes_with_random_kills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(BENCHMARKS), *sys.path]))
    from store_stress import stress

    outcome = stress(tmp_path, processes=4, opens=25, kills_a_second=1.0, seed=1)
    assert (outcome.failed, outcome.damaged, outcome.whole) == (0, 0, True)
    assert outcome.opens >= 4 * 25
    assert outcome.hits > 0
