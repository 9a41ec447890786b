"""Every benchmark starts: what it imports is there, and it says what it measures."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"
SCRIPTS = sorted(path.name for path in FOLDER.glob("*.py") if "@click.command" in path.read_text())


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_benchmark_tells_its_options(script: str) -> None:
    done = subprocess.run(
        [sys.executable, str(FOLDER / script), "--help"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Usage" in done.stdout
