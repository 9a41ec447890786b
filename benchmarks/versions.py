"""Compares two checkouts of fourfold: runs, first builds, cached and prepared starts.

OTHER is another checkout, such as one created with `git worktree add ../before COMMIT`. Runs of
both are interleaved, each in its own processes with its own benchmarks, caches and kernels, so that
noise affects both. A ratio of 0.50 means half of the other's time.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import click
from contest import Contestant, contest
from networks import NETWORKS, network_file
from peers import OURS, Task
from rich.console import Console
from rich.table import Table
from setting import ROOT, WORK, describe_setting, write_json
from start import Starts, base_environment

from fourfold.backends import find_device

STARTS = ("first", "kept", "prepared", "prepared, again")
BUILD = "first, build and run"
Rows = list[dict[str, Any]]


def measure_runs(task: Task, roots: Mapping[str, Path], seconds: float) -> dict[str, Any]:
    """Measure both from NumPy to NumPy, and on the device alone."""
    with tempfile.TemporaryDirectory() as work:
        contestants = []
        for title, root in roots.items():
            folder = Path(work) / title
            folder.mkdir()
            where = {**base_environment(root), "FOURFOLD_CACHE": str(folder / "store")}
            one = Contestant(OURS, task, folder, where, scripts=root / "benchmarks")
            contestants.append(one)
        contest(contestants, 600.0, seconds)
    found: dict[str, Any] = {}
    for title, one in zip(roots, contestants, strict=True):
        if one.missing:
            raise click.ClickException(f"{title}: {one.missing}")
        for way, noted in one.seconds.items():
            found.setdefault(way, {})[title] = {"median": median(noted), "best": min(noted)}
    return found


def measure_starts(
    model: Path, device: str, precision: str, roots: Mapping[str, Path], rounds: int
) -> dict[str, Any]:
    """Return the minimum and the median start of each kind, both versions interleaved."""
    noted: dict[str, dict[str, list[float]]] = {
        kind: {title: [] for title in roots} for kind in (*STARTS, BUILD)
    }
    with tempfile.TemporaryDirectory() as work:
        both = {}
        for title, root in roots.items():
            folder = Path(work) / title
            folder.mkdir()
            both[title] = Starts(model, device, precision, folder, root)
            both[title].prepare()
        for _ in range(rounds):
            for title, starts in both.items():
                first = starts.first()
                noted["first"][title].append(first["total"])
                noted[BUILD][title].append(first["build"] + first["run"])
                noted["kept"][title].append(starts.kept()["total"])
                noted["prepared"][title].append(starts.shipped()["total"])
                noted["prepared, again"][title].append(starts.shipped_again()["total"])
    return {
        kind: {title: {"median": median(s), "best": min(s)} for title, s in by.items()}
        for kind, by in noted.items()
    }


def table_of(rows: Rows) -> Table:
    table = Table(header_style="bold", title="milliseconds")
    for name in ("model", "what"):
        table.add_column(name)
    shown = ("before", "after", "ratio", "before, best", "after, best", "ratio of best")
    for name in shown:
        table.add_column(name, justify="right")
    for row in rows:
        for what, found in row["times"].items():
            cells = []
            for way in ("median", "best"):
                before, after = found["before"][way], found["after"][way]
                cells += [f"{before * 1e3:.3f}", f"{after * 1e3:.3f}", f"{after / before:.2f}"]
            table.add_row(row["model"], what, *cells)
    return table


@click.command(help=__doc__)
@click.argument("other", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("models", nargs=-1)
@click.option("--device", default="auto", show_default=True)
@click.option("--precision", default="fp32", show_default=True)
@click.option("--seconds", default=6.0, show_default=True, help="Measuring time of runs per model.")
@click.option("--rounds", default=5, show_default=True, help="Number of starts; 0 skips them.")
@click.option(
    "--json", "output", type=click.Path(path_type=Path), help="Write the results to this JSON file."
)
def main(
    other: Path,
    models: Sequence[str],
    device: str,
    precision: str,
    seconds: float,
    rounds: int,
    output: Path | None,
) -> None:
    roots = {"before": other.resolve(), "after": ROOT}
    console, rows = Console(), []
    console.width = max(console.width, 140)
    for name in models or tuple(NETWORKS):
        model = network_file(name, WORK) if name in NETWORKS else Path(name)
        times = measure_runs(Task(model, 1, precision, device, 1), roots, seconds)
        if rounds:
            times |= measure_starts(model, device, precision, roots, rounds)
        rows.append({"model": model.stem, "times": times})
        console.print(f"{model.stem}: done", style="dim")
    setting = describe_setting(find_device(device))
    console.print(f"{setting['device']}, driver {setting['driver']}", soft_wrap=True)
    console.print(table_of(rows))
    if output is not None:
        write_json(output, {"setting": setting, "models": rows})


if __name__ == "__main__":
    main()
