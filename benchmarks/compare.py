"""Compares fourfold with other engines on a CPU or a GPU, in one table.

On a CPU the peers are LiteRT (XNNPACK), ONNX Runtime and tinygrad with OpenCL; on a GPU PyTorch (a
CUDA graph), ncnn with Vulkan and tinygrad with OpenCL. Each engine has a process of its own, and
their runs are interleaved, so that noise affects all of them. Peers that are not installed, or that
cannot run the network, are skipped with a message.

MODELS are files or names. The default is MobileNet v1, v2 and ResNet-50 with random weights, and
six models of the shared folder if it exists.

--beside adds fourfold on other devices, such as the same GPU with another API. --ways adds run
modes to the same turns: bytes (an image as bytes, scaled on the device), tensors (inputs and
outputs in device memory, synchronized), torch (PyTorch tensors as inputs and outputs).

python benchmarks/compare.py mobilenet_v1 mobilenet_v2 resnet50 --device cuda:0 --beside opencl:0 \\
    --peers pytorch --ways bytes,tensors,torch --no-batch

A first run may build kernels with fewer optimizations than `fourfold prepare`. With --prepared,
fourfold opens files that it prepared.

A value of 0.50 for 'of PyTorch' means half of PyTorch's time. GB/s and GFLOP/s refer to the time on
the device: each activation counts as written once and read once per consumer, each weight as read
once. The peak rates above the table are measured in the same run.
"""

from __future__ import annotations

import os
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import click
from ceilings import Ceilings, by_opencl, measure_ceilings
from contest import Contestant, contest
from memory import memory_of, memory_table
from networks import NETWORKS, network_file
from peers import AT, OURS, TITLES, Task, title_of
from setting import SHARED, WORK, describe_setting, write_json

from fourfold.backends import find_device
from fourfold.compiler.partition.cost import flops
from fourfold.device import DeviceInfo
from fourfold.graph import Graph
from fourfold.types import DType

SHARED_MODELS = (
    "deeplab_v3_257_float",
    "ssd_mobilenet_v2_fp16",
    "posenet_mobilenet_385_float",
    "face_landmark_fp16",
    "hand_landmark_lite",
    "pose_landmark_lite",
)
BATCH, BATCHED = 32, ("mobilenet_v1", "resnet50")
PEERS = {
    "cpu": ("litert", "onnx_runtime", "tinygrad_opencl"),
    "gpu": ("pytorch", "ncnn_vulkan", "tinygrad_opencl"),
}
MAX_ERROR = 0.05  # relative to an output's range; larger errors count as wrong
say = partial(click.echo, err=True)
WAYS = ("bytes", "tensors", "torch")
FLOATS = "run"  # from NumPy to NumPy; every engine supports it


def find_models(given: Sequence[str], shared: Path) -> Iterator[Path]:
    """Yield the files of the requested models; missing ones are skipped with a message."""
    for name in given or (*NETWORKS, *SHARED_MODELS):
        path = shared / "models" / "tflite" / f"{name}.tflite"
        if Path(name).is_file():
            yield Path(name)
        elif name in NETWORKS:
            yield network_file(name, WORK)
        elif path.is_file():
            yield path
        else:
            say(f"{name}: skipped, the file was not found")


def unpack(wheels: Path | None, folder: Path) -> dict[str, str]:
    """Unpack wheels, and return environment variables with which peers import them."""
    if wheels is None:
        return {}
    for wheel in sorted(wheels.glob("*.whl")):
        with zipfile.ZipFile(wheel) as file:
            file.extractall(folder)
    paths = [*os.environ.get("PYTHONPATH", "").split(os.pathsep), str(folder)]
    return {"PYTHONPATH": os.pathsep.join(one for one in paths if one)}


def traffic(graph: Graph, half: bool) -> int:
    """Return the minimum memory traffic: activations written once and read by each consumer."""
    total = 0
    for node in graph.nodes:
        for name in (*node.reads, *node.outputs):
            type_ = graph.types[name]
            is_port = name in (*graph.inputs, *graph.outputs)
            small = half and not is_port and type_.dtype is DType.F32
            total += type_.bytes // 2 if small else type_.bytes
    return total


def measure(
    task: Task,
    peers: Sequence[str],
    how: dict[str, Any],
    environment: dict[str, str],
    ways: Sequence[str],
) -> dict[str, Any]:
    """Run all engines on one model, and return a row of the table."""
    with tempfile.TemporaryDirectory() as folder:
        contestants = [
            Contestant(name, task, Path(folder), environment, more=ways) for name in (OURS, *peers)
        ]
        contest(contestants, **how)
    row: dict[str, Any] = {"model": task.model.stem, "batch": task.batch, "engines": {}}
    for one in contestants:
        times = {way: found.as_data() for way in one.seconds if (found := one.times(way))}
        row["engines"][one.name] = {"missing": one.missing, "facts": one.facts, "seconds": times}
    work = sum(flops(task.graph, node) for node in task.graph.nodes)
    return {**row, "flops": work, "bytes": traffic(task.graph, task.half)}


def seconds_of(row: dict[str, Any], name: str, way: str = "run", which: str = "median") -> Any:
    return row["engines"].get(name, {}).get("seconds", {}).get(way, {}).get(which)


def shown(value: float | None, digits: int = 3) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def ratio(row: dict[str, Any], peer: str, which: str) -> str:
    ours, theirs = seconds_of(row, OURS, which=which), seconds_of(row, peer, which=which)
    return "–" if ours is None or theirs is None else f"{ours / theirs:.2f}"


def milliseconds(row: dict[str, Any], name: str, way: str = "run") -> str:
    seconds = seconds_of(row, name, way)
    wrong = row["engines"].get(name, {}).get("facts", {}).get("error", 0.0) > MAX_ERROR
    return shown(None if seconds is None else seconds * 1e3) + (
        " (wrong)" if wrong and seconds else ""
    )


def main_table(rows: Sequence[dict[str, Any]], peers: Sequence[str]) -> list[str]:
    titles = ["model", "launches", "stages", "fourfold ms", "device ms"]
    for peer in peers:
        titles += [f"{title_of(peer)} ms", f"of {title_of(peer)}", "of minima"]
    titles += ["GB/s", "GFLOP/s", "error"]
    lines = [f"| {' | '.join(titles)} |", "|---|" + "--:|" * (len(titles) - 1)]
    for row in rows:
        facts = row["engines"][OURS]["facts"]
        cells = [row["model"], *(str(facts.get(key, "–")) for key in ("launches", "stages"))]
        cells += [milliseconds(row, OURS), milliseconds(row, OURS, "device")]
        for peer in peers:
            cells += [milliseconds(row, peer)]
            cells += [ratio(row, peer, which) for which in ("median", "min")]
        own = seconds_of(row, OURS, "device") or seconds_of(row, OURS)
        cells += [shown(own and row[key] / own / 1e9, 1) for key in ("bytes", "flops")]
        cells.append(f"{facts['error']:.1e}" if "error" in facts else "–")
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def batch_table(rows: Sequence[dict[str, Any]], peers: Sequence[str]) -> list[str]:
    titles = ["model", "batch", "fourfold pictures/s"]
    for name in map(title_of, peers):
        titles += [name, f"of {name}'s time", "of minima"]
    lines = [f"| {' | '.join(titles)} |", "|---|" + "--:|" * (len(titles) - 1)]
    for row in rows:
        cells = [row["model"], str(row["batch"]), pictures(row, OURS)]
        for peer in peers:
            cells += [pictures(row, peer), *(ratio(row, peer, one) for one in ("median", "min"))]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def pictures(row: dict[str, Any], name: str) -> str:
    """Return the number of images per second."""
    seconds = seconds_of(row, name)
    return shown(seconds and row["batch"] / seconds, 0)


def ways_table(
    rows: Sequence[dict[str, Any]], engines: Sequence[str], ways: Sequence[str]
) -> list[str]:
    """Return a table of all run modes and engines, also relative to the first engine."""
    lines = ["| model | mode | engine | median ms | min ms | first of it | of minima | runs |"]
    lines.append("|---|---|---|--:|--:|--:|--:|--:|")
    for row in rows:
        for way in (FLOATS, *ways):
            title = "floats" if way == FLOATS else way
            first = times_of(row, engines[0], way)
            for name in engines:
                cells = (row["model"], title, title_of(name), *_way_cells(row, name, way, first))
                lines.append(f"| {' | '.join(cells)} |")
    return lines


def times_of(row: dict[str, Any], engine: str, way: str) -> dict[str, float] | None:
    found: dict[str, float] | None = row["engines"][engine]["seconds"].get(way)
    return found


def _way_cells(
    row: dict[str, Any], name: str, way: str, first: dict[str, float] | None
) -> tuple[str, ...]:
    seconds = times_of(row, name, way)
    if seconds is None:
        engine = row["engines"][name]
        return (engine["missing"] or engine["facts"].get(f"no {way}", "–"), "–", "–", "–", "–")
    shares = ("–", "–")
    if first is not None:
        shares = tuple(f"{first[which] / seconds[which]:.2f}" for which in ("median", "min"))
    times = (f"{seconds[which] * 1e3:.4f}" for which in ("median", "min"))
    return (*times, *shares, str(seconds["runs"]))


def missing(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return why peers were skipped, each reason once."""
    found: dict[str, list[str]] = {}
    for row in rows:
        for name, engine in row["engines"].items():
            if engine["missing"]:
                found.setdefault(f"{title_of(name)}: {engine['missing']}", []).append(row["model"])
    return [f"- {reason} ({', '.join(dict.fromkeys(models))})" for reason, models in found.items()]


def chosen_ways(given: str) -> tuple[str, ...]:
    names = [one for one in given.split(",") if one]
    unknown = [one for one in names if one not in WAYS]
    if unknown:
        raise click.ClickException(
            f"unknown run mode {unknown[0]!r}; choose from {', '.join(WAYS)}"
        )
    return tuple(names)


def chosen_peers(device: DeviceInfo, given: str) -> tuple[str, ...]:
    if given == "auto":
        return PEERS["cpu" if device.is_cpu else "gpu"]
    names = [one for one in given.split(",") if one and one != "none"]
    unknown = [one for one in names if one not in TITLES or one == OURS]
    if unknown:
        names_text = ", ".join(one for one in TITLES if one != OURS)
        raise click.ClickException(f"unknown peer {unknown[0]!r}; choose from {names_text}")
    return tuple(names)


@click.command(help=__doc__)
@click.argument("models", nargs=-1)
@click.option("--only", default="", help="Run only models whose name contains this text.")
@click.option(
    "--peers", default="auto", show_default=True, help="Comma-separated names, or 'none'."
)
@click.option("--device", default="auto", show_default=True)
@click.option("--beside", default="", help="Comma-separated devices that fourfold also runs on.")
@click.option("--ways", default="", help="Comma-separated run modes: bytes,tensors,torch.")
@click.option("--prepared", is_flag=True, help="Let fourfold open files that it prepared.")
@click.option("--precision", help="Precision (default: fp32 on a CPU, mixed on a GPU).")
@click.option("--threads", default=os.cpu_count() or 1, show_default=True, help="Threads of peers.")
@click.option("--seconds", default=6.0, show_default=True, help="Measuring time per model.")
@click.option(
    "--patience", default=240.0, show_default=True, help="Time limit to open a model, in seconds."
)
@click.option(
    "--batch/--no-batch", default=True, show_default=True, help="Also measure a batch of 32."
)
@click.option(
    "--wheels",
    type=click.Path(path_type=Path),
    help="Folder with wheels of peers that are not installed.",
)
@click.option(
    "--shared", default=SHARED, type=click.Path(path_type=Path), help="Folder with models."
)
@click.option(
    "--json", "output", type=click.Path(path_type=Path), help="Write the results to this JSON file."
)
def main(models: tuple[str, ...], **options: Any) -> None:
    device = find_device(options["device"])
    beside = [f"{OURS}{AT}{one}" for one in options["beside"].split(",") if one]
    peers = (*beside, *chosen_peers(device, options["peers"]))
    ways = chosen_ways(options["ways"])
    precision = options["precision"] or ("fp32" if device.is_cpu else "mixed")
    files = [one for one in find_models(models, options["shared"]) if options["only"] in one.stem]
    limits = {"patience": options["patience"], "seconds": options["seconds"]}
    with tempfile.TemporaryDirectory() as folder:
        environment = unpack(options["wheels"], Path(folder))
        run = partial(run_all, peers=peers, how=limits, environment=environment)
        settings = (precision, options["device"], options["threads"], options["prepared"])
        rows = run([Task(one, 1, *settings) for one in files], ways=ways)
        rivals = peers[: len(beside) + 1]  # the first peer is the best one
        many = [one for one in files if one.stem in BATCHED and options["batch"]]
        batches = run([Task(one, BATCH, *settings) for one in many], peers=rivals)
    memory = [memory_of(one, device) for one in files]
    ceilings = ceilings_of(device)
    lines = [f"{device}, {precision}: {ceilings or 'no ceilings'}", "", *main_table(rows, peers)]
    lines += ["", *ways_table(rows, (OURS, *peers), ways), ""] if ways else [""]
    if batches and peers:
        lines += [*batch_table(batches, rivals), ""]
    lines += [*memory_table(memory), "", *missing([*rows, *batches])]
    click.echo("\n".join(lines))
    if options["output"] is not None:
        data = {"setting": describe_setting(device), "precision": precision, "memory": memory}
        data |= {"ceilings": ceilings and asdict(ceilings), "models": rows, "batches": batches}
        write_json(options["output"], data)


def ceilings_of(device: DeviceInfo) -> Ceilings | None:
    """Measure peak rates of the hardware with OpenCL kernels; None without OpenCL."""
    same = by_opencl(device)
    return None if same is None else measure_ceilings(same)


def run_all(
    tasks: Sequence[Task],
    peers: Sequence[str],
    how: dict[str, Any],
    environment: dict[str, str],
    ways: Sequence[str] = (),
) -> list[dict[str, Any]]:
    rows = []
    for task in tasks:
        rows.append(measure(task, peers, how, environment, ways))
        times = {title_of(name): milliseconds(rows[-1], name) for name in (OURS, *peers)}
        noted = ", ".join(f"{name} {time}" for name, time in times.items())
        say(f"{task.model.stem}, batch {task.batch}: {noted}")
    return rows


if __name__ == "__main__":
    main()
