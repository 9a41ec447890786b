"""Measures the time from the start of a process to its first result: cold, cached and prepared.

Every start is a new process. 'first' has empty caches of fourfold and the driver, 'kept' finds both
filled, 'prepared' opens a prepared file without a cache and with an empty driver cache, and
'prepared, again' repeats that. LiteRT's CPU start is interleaved with them. 'ours' excludes imports
and the loading of the driver: open, make, build, upload, first run. The table shows the fastest
start of each kind and the median.

--beside adds starts on other devices, such as the same GPU with another API. A second table
compares them with the first device, and shows the build of a first start: from kernel source to
machine code.

python benchmarks/start.py mobilenet_v1 resnet50 --device cuda:0 --beside opencl:0 \\
    --precision mixed --peers ncnn_vulkan,pytorch

--peers adds other engines (see peers/), each started with empty caches ('first') and with the
caches that this filled ('again'). Their time is from the import of the engine to its first result,
without the start of Python and without reading the model file. Engines that are not installed, or
that cannot run the network, are listed with the reason.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import click
from networks import NETWORKS, network_file
from peers import TITLES
from rich.console import Console
from rich.table import Table
from setting import ROOT, SHARED, WORK, describe_setting, write_json

from fourfold.backends import find_device

EXTRA = ("posenet_mobilenet_385_float", "deeplab_v3_257_float", "face_landmark_fp16")
PEER_ROUNDS = 3
PARTS = ("python", "imports", "device", "open", "make", "build", "upload", "run")
BESIDE = ("first", "kept", "prepared", "prepared, again")
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
    """Return the environment of an installed package: with bytecode, and first on the path."""
    variables = {**os.environ}
    variables.pop("PYTHONDONTWRITEBYTECODE", None)
    bytecode = Path(tempfile.gettempdir()) / "fourfold-benchmark-bytecode"
    paths = [str(root / "src"), *variables.get("PYTHONPATH", "").split(os.pathsep)]
    path = os.pathsep.join(dict.fromkeys(one for one in paths if one))
    return {**variables, "PYTHONPATH": path, "PYTHONPYCACHEPREFIX": str(bytecode)}


def child(script: str, words: list[str], root: Path = ROOT, **environment: str) -> dict[str, Any]:
    """Run a script in a new process; 'total' counts from its start to its first result."""
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
    """Split the seconds of a start of fourfold into parts."""
    timings = dict(found["timings"])
    compile_seconds = sum(timings.get(name, 0.0) for name in (*MADE, "imports"))
    own = {name: timings.get(name, 0.0) for name in ("device", "open", "build", "upload")}
    imports = found["total"] - found["python"] - found["session"] - found["run"]
    row = {
        "python": found["python"],
        "imports": imports,
        **own,
        "make": compile_seconds,
        "run": found["run"],
    }
    row["total"] = found["total"]
    row["ours"] = found["session"] + found["run"] - own["device"]
    return row


def best(rows: list[dict[str, float]]) -> dict[str, float]:
    """Return the fastest start with its parts, and the medians of all."""
    quickest = min(rows, key=lambda row: row["total"])
    middle = {f"median {name}": median(row[name] for row in rows) for name in ("total", "ours")}
    return {**quickest, **middle}


class Starts:
    """All kinds of starts of one model, with the fourfold of a checkout."""

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
                "CUDA_CACHE_PATH": str(driver),
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


def measure(
    model: Path, devices: Sequence[Starts], firsts: int, rounds: int, threads: int
) -> dict[str, Any]:
    """Measure all starts of a model on some devices, interleaved."""
    noted: list[dict[str, list[dict[str, float]]]] = []
    for starts in devices:
        starts.prepare()
        noted.append({kind: [] for kind in ("first", "kept", "prepared", "prepared, again")})
    for _ in range(firsts):
        for starts, rows in zip(devices, noted, strict=True):
            rows["first"].append(starts.first())
    theirs = []
    for _ in range(rounds):
        for starts, rows in zip(devices, noted, strict=True):
            rows["kept"].append(starts.kept())
            rows["prepared"].append(starts.shipped())
            rows["prepared, again"].append(starts.shipped_again())
        if find_spec("ai_edge_litert"):
            theirs.append(child(THEIRS, [str(model), str(threads)])["total"])
    own, *others = [{kind: best(rows) for kind, rows in one.items()} for one in noted]
    beside = {starts.words[0]: one for starts, one in zip(devices[1:], others, strict=True)}
    litert = {"total": min(theirs), "median total": median(theirs)} if theirs else None
    return {"model": model.stem, "starts": own, "beside": beside, "litert": litert}


def measure_peer(name: str, starts: Starts, threads: int, rounds: int) -> dict[str, Any]:
    """Measure the first and later starts of a peer in seconds; or return why it is missing."""
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


def find_models(given: Sequence[str], shared: Path) -> Iterator[Path]:
    """Yield the files of models by name or path; without any, those that are available."""
    for name in given or (*list(NETWORKS)[:2], *EXTRA):
        path = shared / "models" / "tflite" / f"{name}.tflite"
        if name in NETWORKS:
            yield network_file(name, WORK)
        elif given and Path(name).is_file():
            yield Path(name)
        elif path.is_file():
            yield path
        elif given:
            raise click.ClickException(f"the model {name} was not found")


def peer_rows(row: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield the table rows of all peers of a model."""
    empty = ("-",) * len(PARTS)
    for name, found in row["peers"].items():
        if "missing" in found:
            yield (row["model"], f"{TITLES[name]}: {found['missing']}")
            continue
        for kind in ("first", "again"):
            middle = found[kind] if kind == "first" else found["median again"]
            shown = (f"{found[kind] * 1e3:.0f}", f"{middle * 1e3:.0f}")
            share = of_litert(row, found[kind])
            yield (row["model"], f"{TITLES[name]}, {kind}", *empty, *shown, "", "", "", "", share)


def of_litert(row: dict[str, Any], seconds: float) -> str:
    return f"{seconds / row['litert']['total']:.2f}" if row["litert"] else "-"


def table_of(rows: list[dict[str, Any]]) -> Table:
    table = Table(header_style="bold", title="milliseconds")
    shown = (*PARTS, "total", "median total", "ours", "median ours")
    columns = ("model", "start", *shown, "of first", "ours of first", "of LiteRT")
    for name in columns:
        table.add_column(name, justify="left" if name in columns[:2] else "right")
    for row in rows:
        for device, starts in ({"": row["starts"]} | row["beside"]).items():
            for kind, found in starts.items():
                cells = [f"{found[part] * 1e3:.0f}" for part in shown]
                first = starts["first"]
                cells += [f"{found[part] / first[part]:.1%}" for part in ("total", "ours")]
                table.add_row(
                    row["model"],
                    f"{device} {kind}".lstrip(),
                    *cells,
                    of_litert(row, found["total"]),
                )
        if row["litert"]:
            theirs = [f"{row['litert'][name] * 1e3:.0f}" for name in ("total", "median total")]
            table.add_row(row["model"], "LiteRT CPU", *("-" for _ in PARTS), *theirs)
        for cells in peer_rows(row):
            table.add_row(*cells)
    return table


def beside_table(rows: list[dict[str, Any]], name: str) -> Table:
    """Compare a device with others: the build of a first start, and whole starts."""
    table = Table(header_style="bold", title="milliseconds, minimum of each")
    for title in ("model", "what", name, "beside", "its", "ratio", "ratio of medians"):
        table.add_column(title, justify="left" if title in ("model", "what", "beside") else "right")
    for row in rows:
        for other, found in row["beside"].items():
            own, theirs = row["starts"]["first"]["build"], found["first"]["build"]
            times = (f"{own * 1e3:.0f}", other, f"{theirs * 1e3:.0f}", f"{own / theirs:.2f}", "")
            table.add_row(row["model"], "first, build", *times)
            for kind in BESIDE:
                table.add_row(row["model"], kind, *_pair(row["starts"][kind], other, found[kind]))
    return table


def _pair(own: dict[str, float], other: str, theirs: dict[str, float]) -> tuple[str, ...]:
    ratios = (f"{own[which] / theirs[which]:.2f}" for which in ("total", "median total"))
    return (f"{own['total'] * 1e3:.0f}", other, f"{theirs['total'] * 1e3:.0f}", *ratios)


@click.command(help=__doc__)
@click.argument("models", nargs=-1)
@click.option("--device", default="auto", show_default=True)
@click.option("--beside", default="", help="Comma-separated devices to compare with.")
@click.option("--precision", default="fp32", show_default=True)
@click.option(
    "--threads", default=os.cpu_count() or 1, show_default=True, help="Threads of LiteRT."
)
@click.option("--firsts", default=2, show_default=True, help="Number of cold starts per model.")
@click.option("--rounds", default=7, show_default=True, help="Number of all other starts.")
@click.option(
    "--peers", default="", help="Comma-separated names, such as tinygrad_opencl,ncnn_vulkan."
)
@click.option(
    "--shared", default=SHARED, type=click.Path(path_type=Path), help="Folder with models."
)
@click.option(
    "--json", "output", type=click.Path(path_type=Path), help="Write the results to this JSON file."
)
def main(models: tuple[str, ...], **options: Any) -> None:
    console, rows = Console(), []
    console.width = max(console.width, 200)
    names = [options["device"], *(one for one in options["beside"].split(",") if one)]
    for model in tuple(find_models(models, options["shared"])):
        with tempfile.TemporaryDirectory() as work:
            rows.append(measure_all(model, names, Path(work), options))
        console.print(f"{model.stem}: done", style="dim")
    setting = describe_setting(find_device(names[0]))
    console.print(f"{setting['device']}, driver {setting['driver']}", soft_wrap=True)
    console.print(table_of(rows))
    if len(names) > 1:
        console.print(beside_table(rows, names[0]))
    if options["output"] is not None:
        counts = {name: options[name] for name in ("firsts", "rounds", "threads")}
        write_json(options["output"], {"setting": setting, **counts, "models": rows})


def measure_all(
    model: Path, names: Sequence[str], work: Path, options: dict[str, Any]
) -> dict[str, Any]:
    """Return the row of a model: its starts on all devices, and those of peers."""
    devices = []
    for number, name in enumerate(names):
        folder = work / str(number)
        folder.mkdir()
        devices.append(Starts(model, name, options["precision"], folder))
    counts = {name: options[name] for name in ("firsts", "rounds", "threads")}
    row = measure(model, devices, **counts)
    peers = [name for name in options["peers"].split(",") if name]
    row["peers"] = {
        name: measure_peer(name, devices[0], options["threads"], PEER_ROUNDS) for name in peers
    }
    return row


if __name__ == "__main__":
    main()
