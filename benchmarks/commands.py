"""Measures the start time of commands: the minimum CPU time of several starts, in milliseconds.

Each start is a new process. --beside interleaves the sources of another checkout, such as the
package before a change.

python benchmarks/commands.py --beside ../before/src
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table
from setting import ROOT, SHARED, describe_setting, write_json

from fourfold.backends import find_device

MODEL = SHARED / "models" / "tflite" / "rnet.tflite"
HELPS = ("run", "bench", "check", "cache", "verify", "prepare", "explain")
WITH_MODEL = ("run", "check", "explain")


def commands(model: Path) -> list[list[str]]:
    """Return the commands to time: help pages, `devices`, and some with a model if it exists."""
    every = [["--help"], *([name, "--help"] for name in HELPS), ["devices"]]
    return every + [[name, str(model)] for name in WITH_MODEL if model.exists()]


def processor_seconds(words: list[str], sources: Path, store: str) -> float:
    """Return the CPU time of one start, including its child processes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-m", "fourfold", *words],
        env={**os.environ, "PYTHONPATH": str(sources), "FOURFOLD_CACHE": store},
        capture_output=True,
        check=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@click.command(help=__doc__)
@click.argument("model", type=click.Path(path_type=Path), default=MODEL)
@click.option(
    "--beside",
    type=click.Path(exists=True, path_type=Path),
    help="Source folder of another checkout to compare with.",
)
@click.option("--rounds", type=click.IntRange(1), default=7, show_default=True)
@click.option(
    "--json", "output", type=click.Path(path_type=Path), help="Write the results to this JSON file."
)
def main(model: Path, beside: Path | None, rounds: int, output: Path | None) -> None:
    sources = {"now": ROOT / "src"} | ({} if beside is None else {"before": beside})
    table = Table("command", *sources, title="milliseconds of CPU time", safe_box=True)
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        stores = {name: os.path.join(folder, name) for name in sources}
        for words in commands(model):
            times: dict[str, list[float]] = {name: [] for name in sources}
            for _ in range(rounds):
                for name, place in sources.items():
                    times[name].append(processor_seconds(words, place, stores[name]))
            title = " ".join([words[0], *(Path(one).name for one in words[1:])])
            found[title] = {name: min(taken) for name, taken in times.items()}
            table.add_row(title, *(f"{found[title][name] * 1e3:.0f}" for name in sources))
    Console().print(table)
    if output is not None:
        write_json(output, {"setting": describe_setting(find_device("auto")), "seconds": found})


if __name__ == "__main__":
    main()
