"""fourfold beside its peers: one run, one table, on a CPU or on a GPU.

On a CPU the peers are LiteRT (XNNPACK), ONNX Runtime and tinygrad's OpenCL; on a GPU PyTorch (a
CUDA graph), ncnn's Vulkan and tinygrad's OpenCL. Each engine has a process of its own and all take
turns, so that whatever disturbs one disturbs the others. A peer that is not installed, or that
cannot have the network, is skipped with a word.

MODELS are files or names; without them: MobileNet v1, v2 and ResNet-50, written here with random
weights, and six models of the shared folder where there is one.

--beside names devices on which fourfold takes part once more: the same GPU by another API. --ways
are timed in the same turns: bytes (a picture as bytes, scaled on the device), tensors (memory of
the device in and out, synchronised), torch (PyTorch's own tensors in and out).

python benchmarks/compare.py mobilenet_v1 mobilenet_v2 resnet50 --device cuda:0 --beside opencl:0 \\
    --peers pytorch --ways bytes,tensors,torch --no-batch

A first run may build kernels otherwise than `fourfold prepare` does, which has more time:
--prepared has fourfold open files that it prepared.

'of PyTorch' 0.50 means half of PyTorch's time. GB/s and GFLOP/s are those of the device's part:
every value between layers counts as written once and read once by each reader, every weight as read
once. The ceilings above the table were measured in the same run.
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
from ways import WAYS, ways_table

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
WRONG = 0.05  # of an output's range: no answer to the same question
say = partial(click.echo, err=True)


def find_models(given: Sequence[str], shared: Path) -> Iterator[Path]:
    """The files of all models asked for; those of the shared folder only where they are there."""
    for name in given or (*NETWORKS, *SHARED_MODELS):
        path = shared / "models" / "tflite" / f"{name}.tflite"
        if Path(name).is_file():
            yield Path(name)
        elif name in NETWORKS:
            yield network_file(name, WORK)
        elif path.is_file():
            yield path
        else:
            say(f"{name}: skipped, there is no such file")


def unpack(wheels: Path | None, folder: Path) -> dict[str, str]:
    """The environment in which peers find what the wheels hold, behind what is installed."""
    if wheels is None:
        return {}
    for wheel in sorted(wheels.glob("*.whl")):
        with zipfile.ZipFile(wheel) as file:
            file.extractall(folder)
    found = [*os.environ.get("PYTHONPATH", "").split(os.pathsep), str(folder)]
    return {"PYTHONPATH": os.pathsep.join(one for one in found if one)}


def traffic(graph: Graph, half: bool) -> int:
    """Bytes that must move: each value written once and read by each reader, each weight once."""
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
    """One row of the table: all engines on one model."""
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
    found = seconds_of(row, name, way)
    wrong = row["engines"].get(name, {}).get("facts", {}).get("error", 0.0) > WRONG
    return shown(None if found is None else found * 1e3) + (" (wrong)" if wrong and found else "")


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
    """In a second."""
    found = seconds_of(row, name)
    return shown(found and row["batch"] / found, 0)


def missing(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Why peers were skipped, each reason once."""
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
        raise click.ClickException(f"there is no way {unknown[0]!r}; there are {', '.join(WAYS)}")
    return tuple(names)


def chosen_peers(device: DeviceInfo, given: str) -> tuple[str, ...]:
    if given == "auto":
        return PEERS["cpu" if device.is_cpu else "gpu"]
    names = [one for one in given.split(",") if one and one != "none"]
    unknown = [one for one in names if one not in TITLES or one == OURS]
    if unknown:
        known = ", ".join(one for one in TITLES if one != OURS)
        raise click.ClickException(f"there is no peer {unknown[0]!r}; there are {known}")
    return tuple(names)


@click.command(help=__doc__)
@click.argument("models", nargs=-1)
@click.option("--only", default="", help="Models whose name has this in it.")
@click.option("--peers", default="auto", show_default=True, help="Names with commas, or 'none'.")
@click.option("--device", default="auto", show_default=True)
@click.option("--beside", default="", help="Devices with commas: fourfold there, too.")
@click.option("--ways", default="", help="Other ways to run, with commas: bytes,tensors,torch.")
@click.option("--prepared", is_flag=True, help="fourfold opens files that it prepares first.")
@click.option("--precision", help="fp32 on a CPU, mixed on a GPU, if not said.")
@click.option("--threads", default=os.cpu_count() or 1, show_default=True, help="Of peers.")
@click.option("--seconds", default=6.0, show_default=True, help="Of taking turns, a model.")
@click.option("--patience", default=240.0, show_default=True, help="Seconds to open a model.")
@click.option("--batch/--no-batch", default=True, show_default=True, help="Batch 32, too.")
@click.option("--wheels", type=click.Path(path_type=Path), help="Peers that are not installed.")
@click.option("--shared", default=SHARED, type=click.Path(path_type=Path), help="Models to find.")
@click.option("--json", "output", type=click.Path(path_type=Path), help="Write the numbers here.")
def main(models: tuple[str, ...], **options: Any) -> None:
    device = find_device(options["device"])
    beside = [f"{OURS}{AT}{one}" for one in options["beside"].split(",") if one]
    peers = (*beside, *chosen_peers(device, options["peers"]))
    ways = chosen_ways(options["ways"])
    precision = options["precision"] or ("fp32" if device.is_cpu else "mixed")
    files = [one for one in find_models(models, options["shared"]) if options["only"] in one.stem]
    how = {"patience": options["patience"], "seconds": options["seconds"]}
    with tempfile.TemporaryDirectory() as folder:
        environment = unpack(options["wheels"], Path(folder))
        run = partial(run_all, peers=peers, how=how, environment=environment)
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
    """What the hardware can do at most; its kernels are OpenCL's, whoever plays the models."""
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
