"""Measures the cost of logging when importing fourfold, opening a cached model and running it.

Each measurement is a new process, and the kinds are interleaved. 'off' does not import logging,
'imported' imports it in the program, 'debug' keeps every record in memory. --beside also measures
the sources of another folder as 'off', such as the package before a change. Times are CPU time of
the calling thread, which writes the log: the minimum and the median of all turns.

python benchmarks/logs.py --beside ../before/src
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from statistics import median

import click
from rich.console import Console
from rich.table import Table
from setting import ROOT, SHARED, describe_setting, write_json

from fourfold.backends import find_device

MODEL = SHARED / "models" / "tflite" / "resnet8_cifar_float.tflite"
FIRST = {
    "off": "",
    "imported": "import logging",
    "debug": """
import logging, logging.handlers
logger = logging.getLogger("fourfold")
logger.setLevel("DEBUG")
logger.addHandler(logging.handlers.MemoryHandler(10**6, flushLevel=100))
""",
}
CHILD = """
import json, sys, time
import numpy as np
clock = time.thread_time
began = clock()
import fourfold
imported = clock()
session = fourfold.Session(sys.argv[1], device=sys.argv[2])
inputs = [np.zeros(one.shape, one.dtype) for one in session.inputs]
opened = clock()
times = []
for _ in range(int(sys.argv[3])):
    start = clock()
    session.run(inputs)
    times.append(clock() - start)
times.sort()
print(json.dumps({"import": imported - began, "open": opened - imported,
    "run": times[len(times) // 2]}))
"""
Found = Mapping[str, float]


def measure(first: str, sources: Path, words: tuple[str, ...], store: str) -> Found:
    """Run one process: the seconds of the import, of opening the model, and of the median run."""
    variables = {**os.environ, "PYTHONPATH": str(sources), "FOURFOLD_CACHE": store}
    command = [sys.executable, "-c", f"{first}\n{CHILD}", *words]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
    found: Found = json.loads(done.stdout)
    return found


@click.command(help=__doc__)
@click.argument("model", default=str(MODEL), type=click.Path(exists=True))
@click.option("--device", default="auto", show_default=True)
@click.option(
    "--beside",
    type=click.Path(exists=True, path_type=Path),
    help="Source folder of another checkout to compare with.",
)
@click.option("--turns", default=15, show_default=True)
@click.option("--runs", default=300, show_default=True, help="Runs per process.")
@click.option(
    "--json", "path", type=click.Path(path_type=Path), help="Write the results to this JSON file."
)
def main(
    model: str, device: str, beside: Path | None, turns: int, runs: int, path: Path | None
) -> None:
    own = ROOT / "src"
    kinds = {name: (first, own) for name, first in FIRST.items()}
    if beside is not None:
        kinds = {"before": ("", beside.resolve()), **kinds}
    found: dict[str, list[Found]] = defaultdict(list)
    words = (model, find_device(device).address, str(runs))
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(turns + 1):
            for name, (first, sources) in kinds.items():
                store = f"{folder}/{name}"  # a cache belongs to one version
                times = measure(first, sources, words, store)
                found[name].extend([times] if turn else ())  # the first turn fills the cache
    show(model, found)
    if path is not None:
        write_json(path, {"setting": describe_setting(find_device(device)), "times": dict(found)})


def show(model: str, found: Mapping[str, list[Found]]) -> None:
    table = Table(title=f"{Path(model).name}: minimum (median), ms of the calling thread")
    for column in ("", "import", "open", "run"):
        table.add_column(column, justify="right")
    for name, rows in found.items():
        cells = []
        for part, digits in (("import", 1), ("open", 1), ("run", 4)):
            times = [row[part] * 1e3 for row in rows]
            cells.append(f"{min(times):.{digits}f} ({median(times):.{digits}f})")
        table.add_row(name, *cells)
    Console().print(table)


if __name__ == "__main__":
    main()
