"""Every benchmark starts: what it imports is there, and it says what it measures."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"
SCRIPTS = sorted(path.name for path in FOLDER.glob("*.py") if "@click.command" in path.read_text())
# One process for all of them: what each imports is mostly the same, and takes longer than the rest.
ASK_ALL = """
import contextlib, io, json, runpy, sys, traceback

told = {}
for script in sys.argv[1:]:
    sys.argv, text, code = [script, "--help"], io.StringIO(), None
    with contextlib.redirect_stdout(text):
        try:
            runpy.run_path(script, run_name="__main__")
        except SystemExit as end:
            code = end.code
        except BaseException:
            text.write(traceback.format_exc())
    told[script] = (code, text.getvalue())
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def told() -> dict[str, tuple[int | None, str]]:
    """What each script ends with, and says, when it is asked for help."""
    command = [sys.executable, "-c", ASK_ALL, *SCRIPTS]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(FOLDER), *sys.path])}
    done = subprocess.run(
        command, cwd=FOLDER, env=environment, capture_output=True, text=True, check=True
    )
    found: dict[str, tuple[int | None, str]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_benchmark_tells_its_options(
    script: str, told: dict[str, tuple[int | None, str]]
) -> None:
    code, text = told[script]
    assert code == 0, text
    assert "Usage" in text
