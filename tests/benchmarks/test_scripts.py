"""Every benchmark script starts and describes its options."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"
SCRIPTS = sorted(path.name for path in FOLDER.glob("*.py") if "@click.command" in path.read_text())
# One process runs them all, because their imports are shared and take most of the time.
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
def help_outputs() -> dict[str, tuple[int | None, str]]:
    """Return exit status and output of each script called with --help."""
    command = [sys.executable, "-c", ASK_ALL, *SCRIPTS]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(FOLDER), *sys.path])}
    done = subprocess.run(
        command, cwd=FOLDER, env=environment, capture_output=True, text=True, check=True
    )
    result: dict[str, tuple[int | None, str]] = json.loads(done.stdout)
    return result


@pytest.mark.parametrize("script", SCRIPTS)
def test_benchmark_describes_its_options(
    script: str, help_outputs: dict[str, tuple[int | None, str]]
) -> None:
    code, text = help_outputs[script]
    assert code == 0, text
    assert "Usage" in text
