"""Test results on one device of one implementation, as data that can be stored in a file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

OPS = "ops"
PRECISIONS = ("fp32", "mixed", "fp16")
GROUPS = (OPS, *PRECISIONS)
MODELS_FILE = "small_models.py"
PASSED, SKIPPED, FAILED, CRASHED, HUNG = "passed", "skipped", "failed", "crashed", "hung"
BAD = (FAILED, CRASHED, HUNG)


@dataclass(frozen=True)
class Result:
    """One test: its outcome, and the reason in one line unless it passed."""

    test: str
    outcome: str
    words: str = ""
    seconds: float = 0.0

    @property
    def group(self) -> str:
        """The precision of a model, or the op tests."""
        file, _, rest = self.test.partition("::")
        if not file.endswith(MODELS_FILE):
            return OPS
        words = rest.rstrip("]").replace("[", "-").split("-")
        return next(name for name in PRECISIONS if name in words)

    @property
    def title(self) -> str:
        """The test without the folders of its file."""
        return self.test.rpartition("/")[2].replace(".py::", ": ")


@dataclass
class Row:
    """A device of an implementation with a number of threads, and its results so far."""

    implementation: str
    device: str
    driver: str
    threads: int
    results: list[Result] = field(default_factory=list)
    note: str = ""  # why results are missing

    def of(self, group: str, *outcomes: str) -> list[Result]:
        return [
            result
            for result in self.results
            if result.group == group and (not outcomes or result.outcome in outcomes)
        ]

    @property
    def bad(self) -> list[Result]:
        return [result for result in self.results if result.outcome in BAD]


def parse_line(line: str, quiet: float, limit: float) -> Result | int:
    """Parse a line of `results_plugin`: a result, or the number of tests.

    A lost worker either crashed or was ended because its test took too long; the `quiet` seconds
    before tell which.
    """
    data = json.loads(line)
    if "tests" in data:
        return int(data["tests"])
    result = Result(**data)
    if result.outcome == CRASHED and quiet >= limit:
        return Result(result.test, HUNG, f"took longer than {limit:.0f} s", quiet)
    return result


def write_rows(path: Path, setting: Mapping[str, Any], rows: Iterable[Row]) -> None:
    data = {"setting": dict(setting), "rows": [asdict(row) for row in rows]}
    path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


def read_rows(path: Path) -> list[Row]:
    data = json.loads(path.read_text(encoding="utf-8"))
    return [
        Row(**{**row, "results": [Result(**result) for result in row["results"]]})
        for row in data["rows"]
    ]
