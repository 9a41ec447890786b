"""Call commands like a shell does, in this process."""

from __future__ import annotations

import json
from typing import Any

from click.testing import CliRunner, Result

from fourfold.cli import main


def call(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


def ask(*words: object) -> Any:
    """Return the JSON output of a command."""
    result = call(*words, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.output)
