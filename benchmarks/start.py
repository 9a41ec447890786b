"""From the start of a process to its first result: first ever, kept, and prepared.

Every start is a new process. 'first' has an empty store and an empty driver cache, 'kept' finds
both as the first left them, 'prepared' opens a prepared file with no store and an empty driver
cache, 'prepared, again' the same once more. LiteRT's CPU start is measured in the same turns.
'ours' comes after the imports and the loading of the driver: open, make, build, upload, first run.
Shown is the quickest start of each kind, and the median of all; noise only ever adds.

--peers names other engines (see peers/): each is started with empty caches ('first') and with what
that left ('again'). Their time counts from the import of the engine to its first result, the
network being at hand: what they would need to read a file, and Python, are left out in their
favour. One that is not installed, or that cannot have the network, is named with the reason.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import click
from networks import NETWORKS, network_file
from peers import TITLES
from rich.console import Console
from rich.table import Table
from setting import ROOT, SHARED, WORK, describe_setting, write_json

from fourfold.players import find_device

EXTRA = ("posenet_mobilenet_385_float", "deeplab_v3_257_float", "face_landmark_fp16")
PEER_ROUNDS = 3
PARTS = ("python", "imports", "device", "open", "make", "build", "upload", "run")
MADE = ("read", "rewrite", "probe", "lower", "keep")
OURS = """
import sys, time
began = time.time()
import numpy as np
import fourfold
imported = time.perf_counter()
session = fourfold.Session(sys.argv[1], device=sys.argv[2], precision=sys.argv[3])
inputs = [np.zeros(one.shape, one.dtype) for one in session.inputs]
opened = time.perf_counter()
session.run(inputs)
done, ended = time.perf_counter(), time.time()
import json
print(json.dumps({"began": began, "ended": ended, "run": done - opened, "origin": session.origin,
    "session": opened - imported, "timings": session.timings}))
"""
THEIRS = """
import sys, time
began = time.time()
import numpy as np
from ai_edge_litert.interpreter import Interpreter
interpreter = Interpreter(model_path=sys.argv[1], num_threads=int(sys.argv[2]))
interpreter.allocate_tensors()
for one in interpreter.get_input_details():
    interpreter.set_tensor(one["index"], np.zeros(one["shape"], one["dtype"]))
interpreter.invoke()
interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
ended = time.time()
import json
print(json.dumps({"began": began, "ended": ended}))
"""


PEER = """
import json, sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from peers import Missing, Task, open_peer
task = Task(Path(sys.argv[3]), 1, sys.argv[4], sys.argv[5], int(sys.argv[6]))
task.arrays()
began = time.perf_counter()
try:
    open_peer(sys.argv[2], task).run()
    found = {"total": time.perf_counter() - began}
except Missing as error:
    found = {"missing": str(error)}
print(json.dumps(found))
"""
CACHES = ("POCL_CACHE_DIR", "CUDA_CACHE_PATH", "XDG_CACHE_HOME", "MESA_SHADER_CACHE_DIR")


def base_environment(root: Path = ROOT) -> dict[str, str]:
    """As an installed package is run: with its files compiled, and found before all others."""
    variables = {**os.environ}
    variables.pop("PYTHONDONTWRITEBYTECODE", None)
    bytecode = Path(tempfile.gettempdir()) / "fourfold-benchmark-bytecode"
    found = [str(root / "src"), *variables.get("PYTHONPATH", "").split(os.pathsep)]
    path = os.pathsep.join(dict.fromkeys(one for one in found if one))
    return {**variables, "PYTHONPATH": path, "PYTHONPYCACHEPREFIX": str(bytecode)}


def child(script: str, words: list[str], root: Path = ROOT, **environment: str) -> dict[str, Any]:
    """Run a script in a new process; 'total' is from before its start to its first result."""
    variables = base_environment(root)
    began = time.time()
    done = subprocess.run(
        [sys.executable, "-c", script, *words],
        env={**variables, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise click.ClickException(done.stderr[-2000:])
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    if "ended" in found:
        found["total"] = found["ended"] - began
        found["python"] = found["began"] - began
    return found


def parts(found: dict[str, Any]) -> dict[str, float]:
    """The seconds of a start of ours, split."""
    timings = dict(found["timings"])
    made = sum(timings.get(name, 0.0) for name in (*MADE, "imports"))
    own = {name: timings.get(name, 0.0) for name in ("device", "open", "build", "upload")}
    imports = found["total"] - found["python"] - found["session"] - found["run"]
    row = {"python": found["python"], "imports": imports, **own, "make": made, "run": found["run"]}
    row["total"] = found["total"]
    row["ours"] = found["session"] + found["run"] - own["device"]
    return row


def best(rows: list[dict[str, float]]) -> dict[str, float]:
    """The quickest start with its parts, and the medians of all."""
    quickest = min(rows, key=lambda row: row["total"])
    middle = {f"median {name}": median(row[name] for row in rows) for name in ("total", "ours")}
    return {**quickest, **middle}


class Starts:
    """All kinds of starts of one model, by the fourfold of a checkout."""

    def __init__(
        self, model: Path, device: str, precision: str, work: Path, root: Path = ROOT
    ) -> None:
        self.model, self.words, self.work, self.root = model, [device, precision], work, root
        self.prepared = work / f"{model.stem}.fourfold"

    def start(self, source: Path, cache: Path | None, driver: Path) -> dict[str, float]:
        driver.mkdir(parents=True, exist_ok=True)
        where = {"FOURFOLD_CACHE": str(cache or "none"), "POCL_CACHE_DIR": str(driver)}
        where["CUDA_CACHE_PATH"] = str(driver)
        return parts(child(OURS, [str(source), *self.words], self.root, **where))

    def first(self) -> dict[str, float]:
        for name in ("store", "driver"):
            shutil.rmtree(self.work / name, ignore_errors=True)
        return self.start(self.model, self.work / "store", self.work / "driver")

    def kept(self) -> dict[str, float]:
        return self.start(self.model, self.work / "store", self.work / "driver")

    def prepare(self) -> None:
        words = ["prepare", str(self.model), "-o", str(self.prepared), "--json"]
        words += ["--device", self.words[0], "--precision", self.words[1], "--only-here"]
        driver = self.work / "prepare-driver"
        driver.mkdir(parents=True, exist_ok=True)
        script = "from fourfold.cli import main; main()"
        subprocess.run(
            [sys.executable, "-c", script, *words],
            env={
                **base_environment(self.root),
                "POCL_CACHE_DIR": str(driver),
                "FOURFOLD_CACHE": "none",
            },
            check=True,
            capture_output=True,
        )

    def shipped(self) -> dict[str, float]:
        shutil.rmtree(self.work / "new-driver", ignore_errors=True)
        return self.start(self.prepared, None, self.work / "new-driver")

    def shipped_again(self) -> dict[str, float]:
        return self.start(self.prepared, None, self.work / "new-driver")


def measure(starts: Starts, firsts: int, rounds: int, threads: int) -> dict[str, Any]:
    starts.prepare()
    first = [starts.first() for _ in range(firsts)]
    rows: dict[str, list[dict[str, float]]] = {"kept": [], "prepared": [], "prepared, again": []}
    theirs = []
    for _ in range(rounds):
        rows["kept"].append(starts.kept())
        rows["prepared"].append(starts.shipped())
        rows["prepared, again"].append(starts.shipped_again())
        theirs.append(child(THEIRS, [str(starts.model), str(threads)])["total"])
    found = {"first": best(first), **{name: best(list_) for name, list_ in rows.items()}}
    litert = {"total": min(theirs), "median total": median(theirs)}
    return {"model": starts.model.stem, "starts": found, "litert": litert}


def measure_peer(name: str, starts: Starts, threads: int, rounds: int) -> dict[str, Any]:
    """A peer's first start and later ones, in seconds; or why there is none."""
    folder = starts.work / f"caches of {name}"
    folder.mkdir()
    where = {variable: str(folder) for variable in CACHES}
    where["CACHEDB"] = str(folder / "tinygrad.db")
    device, precision = starts.words
    words = [str(Path(__file__).parent), name, str(starts.model), precision, device, str(threads)]
    first = child(PEER, words, **where)
    if "missing" in first:
        return first
    again = [child(PEER, words, **where)["total"] for _ in range(rounds)]
    return {"first": first["total"], "again": min(again), "median again": median(again)}


def peer_rows(row: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """The table's rows of all peers of a model."""
    empty = ("-",) * len(PARTS)
    for name, found in row["peers"].items():
        if "missing" in found:
            yield (row["model"], f"{TITLES[name]}: {found['missing']}")
            continue
        for kind in ("first", "again"):
            middle = found[kind] if kind == "first" else found["median again"]
            shown = (f"{found[kind] * 1e3:.0f}", f"{middle * 1e3:.0f}")
            share = f"{found[kind] / row['litert']['total']:.2f}"
            yield (row["model"], f"{TITLES[name]}, {kind}", *empty, *shown, "", "", "", "", share)


def table_of(rows: list[dict[str, Any]]) -> Table:
    table = Table(header_style="bold", title="milliseconds")
    shown = (*PARTS, "total", "median total", "ours", "median ours")
    columns = ("model", "start", *shown, "of first", "ours of first", "of LiteRT")
    for name in columns:
        table.add_column(name, justify="left" if name in columns[:2] else "right")
    for row in rows:
        first, litert = row["starts"]["first"], row["litert"]
        for name, found in row["starts"].items():
            cells = [f"{found[part] * 1e3:.0f}" for part in shown]
            cells += [f"{found[part] / first[part]:.1%}" for part in ("total", "ours")]
            table.add_row(row["model"], name, *cells, f"{found['total'] / litert['total']:.2f}")
        theirs = [f"{litert[name] * 1e3:.0f}" for name in ("total", "median total")]
        table.add_row(row["model"], "LiteRT CPU", *("-" for _ in PARTS), *theirs)
        for cells in peer_rows(row):
            table.add_row(*cells)
    return table


def default_models(shared: Path) -> Iterator[Path]:
    yield from (network_file(name, WORK) for name in list(NETWORKS)[:2])
    for name in EXTRA:
        path = shared / "models" / "tflite" / f"{name}.tflite"
        if path.is_file():
            yield path


@click.command(help=__doc__)
@click.argument("models", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--device", default="auto", show_default=True)
@click.option("--precision", default="fp32", show_default=True)
@click.option("--threads", default=os.cpu_count() or 1, show_default=True, help="Of LiteRT.")
@click.option("--firsts", default=2, show_default=True, help="First-ever starts of a model.")
@click.option("--rounds", default=7, show_default=True, help="Of all other starts.")
@click.option("--peers", default="", help="Names with commas, as tinygrad_opencl,ncnn_vulkan.")
@click.option("--shared", default=SHARED, type=click.Path(path_type=Path), help="Models to find.")
@click.option("--json", "output", type=click.Path(path_type=Path), help="Write the numbers here.")
def main(
    models: tuple[Path, ...],
    device: str,
    precision: str,
    peers: str,
    shared: Path,
    output: Path | None,
    **how: int,
) -> None:
    console, rows = Console(), []
    console.width = max(console.width, 200)
    for model in models or tuple(default_models(shared)):
        with tempfile.TemporaryDirectory() as work:
            starts = Starts(model, device, precision, Path(work))
            row = measure(starts, **how)
            names = [name for name in peers.split(",") if name]
            row["peers"] = {
                name: measure_peer(name, starts, how["threads"], PEER_ROUNDS) for name in names
            }
            rows.append(row)
        console.print(f"{model.stem}: done", style="dim")
    setting = describe_setting(find_device(device))
    console.print(f"{setting['device']}, driver {setting['driver']}", soft_wrap=True)
    console.print(table_of(rows))
    if output is not None:
        write_json(output, {"setting": setting, **how, "models": rows})


if __name__ == "__main__":
    main()
