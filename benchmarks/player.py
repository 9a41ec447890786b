"""Compares the C player with the Python runtime: time to the first result, and runs.

Both run the same prepared file, interleaved. Each start is a new process with a warm driver cache.
A run goes from the caller's input arrays to its output arrays. The table shows the minimum and the
median. `make player` builds the C player.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import click
from networks import network_file
from rich.console import Console
from rich.table import Table
from setting import ROOT, WORK, describe_setting, write_json
from start import Starts, base_environment, child

from fourfold.backends import find_device

RUNS = """
import sys, time, json
import numpy as np
import fourfold
session = fourfold.Session(sys.argv[1], device=sys.argv[2], precision=sys.argv[3], cache=None)
inputs = [np.random.default_rng(0).random(one.shape).astype(one.dtype) for one in session.inputs]
session.run(inputs)
times, began = [], time.perf_counter()
while len(times) < 3 or time.perf_counter() - began < float(sys.argv[4]):
    start = time.perf_counter()
    session.run(inputs)
    times.append(time.perf_counter() - start)
print(json.dumps({"best": min(times), "median": sorted(times)[len(times) // 2]}))
"""


def player_environment(driver: Path) -> dict[str, str]:
    """Return environment variables with which the C player finds the OpenCL of Python's wheels."""
    spec = find_spec("pyopencl")
    variables = {**base_environment(), "POCL_CACHE_DIR": str(driver)}
    for place in (spec and spec.submodule_search_locations) or ():
        for library in Path(place, ".libs").glob("libOpenCL*"):
            variables |= {"LIBOPENCL_SO_PATH": str(library), "PYOPENCL_HOME": place}
            variables["LD_LIBRARY_PATH"] = str(library.parent)
    return variables


class Contestants:
    """Both runtimes of one prepared file."""

    def __init__(self, starts: Starts, player: Path, ordinal: int) -> None:
        self.starts, self.player, self.ordinal = starts, player, ordinal
        self.driver = starts.work / "new-driver"

    def start_python(self) -> float:
        return self.starts.shipped_again()["total"]

    def start_c(self) -> float:
        """Return the seconds until the player prints its line, after the first run."""
        began = time.perf_counter()
        with subprocess.Popen(
            self._words(), env=player_environment(self.driver), stdout=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            line = process.stdout.readline()
            seconds = time.perf_counter() - began
        if process.returncode:
            raise click.ClickException(line.decode())
        return seconds

    def run_python(self, seconds: float) -> dict[str, float]:
        words = [str(self.starts.prepared), *self.starts.words, str(seconds)]
        return child(RUNS, words, POCL_CACHE_DIR=str(self.driver), FOURFOLD_CACHE="none")

    def run_c(self, seconds: float) -> dict[str, float]:
        found: dict[str, float] = self._c("--bench", "--seconds", str(2 * seconds))["bench"]
        return found

    def _words(self) -> list[str]:
        device = ("--device", str(self.ordinal))
        return [str(self.player), str(self.starts.prepared), *device, "--json"]

    def _c(self, *more: str) -> dict[str, Any]:
        words, environment = [*self._words(), *more], player_environment(self.driver)
        done = subprocess.run(words, env=environment, capture_output=True, check=False)
        if done.returncode:
            raise click.ClickException((done.stdout + done.stderr).decode()[-2000:])
        told: dict[str, Any] = json.loads(done.stdout)
        return told


def measure(both: Contestants, rounds: int, seconds: float) -> dict[str, Any]:
    both.starts.prepare()
    both.starts.shipped()
    starts: dict[str, list[float]] = {"python": [], "c": []}
    runs: dict[str, list[dict[str, float]]] = {"python": [], "c": []}
    for _ in range(rounds):
        starts["python"].append(both.start_python())
        starts["c"].append(both.start_c())
        runs["python"].append(both.run_python(seconds))
        runs["c"].append(both.run_c(seconds))
    found: dict[str, Any] = {"model": both.starts.model.stem}
    for name, several in starts.items():
        times = runs[name]
        found[name] = {
            "start": min(several),
            "median start": median(several),
            "run": min(one["best"] for one in times),
            "median run": median(one["median"] for one in times),
        }
    return found


def table_of(rows: list[dict[str, Any]]) -> Table:
    shown = ("start", "median start", "run", "median run")
    table = Table("model", "player", *shown, title="milliseconds", header_style="bold")
    for row in rows:
        for name in ("python", "c"):
            cells = [f"{row[name][part] * 1e3:.3g}" for part in shown]
            table.add_row(row["model"], name, *cells)
    return table


@click.command(help=__doc__)
@click.argument("models", nargs=-1, type=click.Path(exists=True, path_type=Path))
@click.option("--device", default="portable", show_default=True)
@click.option("--precision", default="fp32", show_default=True)
@click.option("--rounds", default=7, show_default=True)
@click.option("--seconds", default=2.0, show_default=True, help="Measuring time of runs per round.")
@click.option("--player", type=click.Path(path_type=Path), default=ROOT / "build" / "fourfold-run")
@click.option("--json", "json_file", type=click.Path(path_type=Path))
def main(
    models: tuple[Path, ...],
    device: str,
    precision: str,
    rounds: int,
    seconds: float,
    player: Path,
    json_file: Path | None,
) -> None:
    if not player.is_file():
        raise click.ClickException(f"'{player}' was not found; build it with 'make player'")
    info, rows = find_device(device), []
    for model in models or (network_file("mobilenet_v1", WORK),):
        with tempfile.TemporaryDirectory() as folder:
            starts = Starts(model, device, precision, Path(folder))
            rows.append(measure(Contestants(starts, player, info.ordinal), rounds, seconds))
    Console().print(table_of(rows))
    if json_file is not None:
        write_json(json_file, {"setting": describe_setting(info), "rows": rows})


if __name__ == "__main__":
    main()
