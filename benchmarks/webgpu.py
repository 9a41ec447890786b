"""Measures WebGPU from Python: models compared with ncnn, launches, pipelines and starts.

MODELS are files or names. The default is MobileNet v1, v2 and ResNet-50 with random weights. Each
engine has its own process, and runs are interleaved (compare.py). 'OpenCL' is fourfold with
OpenCL on the same GPU, if available. Launches are timed with a plan of many empty kernels.
Pipelines and starts are timed in new processes with empty caches ('first') and with filled ones.

In a container with NVIDIA's driver, with wheels instead of installed packages:

    python benchmarks/webgpu.py --wheels FOLDER --json webgpu.json

FOLDER has the wheels of wgpu (only its library is used) and of ncnn.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import click
import numpy as np
from compare import find_models, milliseconds, run_all, seconds_of, unpack
from networks import NETWORKS
from peers import AT, OURS, Task
from setting import SHARED, describe_setting, write_json
from start import CACHES, Starts, best, child, measure_peer
from vulkan_driver import find_vulkan_driver

from fourfold.backends import determine_facts, find_device, make_player
from fourfold.backends.webgpu.binding import Commands
from fourfold.device import MEASURED, DeviceInfo
from fourfold.errors import DeviceError
from fourfold.plan import Buffer, BufferUse, Launch, Plan, Program

NCNN = "ncnn_vulkan"
LAUNCHES, ROUNDS = 1000, 20
STARTS = ("first", "kept", "prepared", "prepared, again")
DRIVER_CACHES = (*CACHES, "__GL_SHADER_DISK_CACHE_PATH")
NOTHING = """//# nothing w0
struct Sizes { dst_at: i32 }
@group(0) @binding(0) var<uniform> sizes: Sizes;
@group(0) @binding(1) var<storage, read_write> dst: array<u32>;
@compute @workgroup_size(1)
fn nothing() { dst[sizes.dst_at] = 1u; }
"""
PIPELINES = """
import json, sys, time
import numpy as np
import fourfold
session = fourfold.Session(sys.argv[1], device=sys.argv[2], precision=sys.argv[3], cache=None)
began = time.perf_counter()
session.run([np.zeros(one.shape, one.dtype) for one in session.inputs])
first = time.perf_counter() - began
session.run([np.zeros(one.shape, one.dtype) for one in session.inputs])
kinds = len({launch.entry for launch in session.plan.launches})
print(json.dumps({"pipelines": kinds, "launches": len(session.plan.launches), "first run": first,
    "build": session.timings["build"], "next run": time.perf_counter() - began - first}))
"""


def launch_costs(device: DeviceInfo) -> dict[str, float]:
    """Return the microseconds per launch: recorded by the host, in total, and on the device."""
    launch = Launch("nothing", (BufferUse(0, 0),), (1,), (1,), "nothing", "nothing")
    plan = Plan(
        name="launches",
        program=Program(NOTHING, ""),
        buffers=(Buffer("arena", "arena", 64), Buffer("constants", "constants", 0)),
        launches=(launch,) * LAUNCHES,
        inputs=(),
        outputs=(),
        constants=np.zeros(0, np.uint8),
        precision="fp32",
    )
    player: Any = make_player(device, plan)
    player.replay()
    recorded, whole = [], []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        commands = player._flight.launches.put(player._device, Commands(player._device))
        recorded.append(time.perf_counter() - began)
        player._device.wait(commands.submit())
        whole.append(time.perf_counter() - began)
    alone = min(player.profile([], 3))
    player.close()
    each = 1e6 / LAUNCHES
    return {
        "recorded in": median(recorded) * each,
        "in all": median(whole) * each,
        "alone on the device": alone * 1e6,
    }


def time_pipelines(model: Path, device: str, precision: str) -> dict[str, Any]:
    """Time a first run, mostly the creation of pipelines, with empty and with filled caches."""
    found: dict[str, Any] = {"model": model.stem}
    with tempfile.TemporaryDirectory() as folder:
        where = dict.fromkeys(DRIVER_CACHES, folder)
        for kind in ("first", "again"):
            found[kind] = child(PIPELINES, [str(model), device, precision], **where)
    return found


def time_starts(model: Path, device: str, precision: str, rounds: int) -> dict[str, Any]:
    """Time starts of fourfold, from the start of a process, and of ncnn, from its import."""
    with tempfile.TemporaryDirectory() as folder:
        starts = Starts(model, device, precision, Path(folder))
        starts.prepare()
        noted: dict[str, list[dict[str, float]]] = {name: [] for name in STARTS}
        for _ in range(rounds):
            calls = (starts.first, starts.kept, starts.shipped, starts.shipped_again)
            for name, call in zip(STARTS, calls, strict=True):
                noted[name].append(call())
        ncnn = measure_peer(NCNN, starts, threads=1, rounds=rounds)
    return {
        "model": model.stem,
        "starts": {name: best(rows) for name, rows in noted.items()},
        "ncnn": ncnn,
    }


def beside(device: DeviceInfo) -> list[str]:
    """Return fourfold with OpenCL on the same GPU, if available."""
    try:
        other = find_device(f"opencl:{device.name}")
    except DeviceError:
        return []
    return [f"{OURS}{AT}{other.address}"]


def table(found: dict[str, Any], peers: Sequence[str]) -> Iterator[str]:
    yield "| model | WebGPU ms | on the device | OpenCL | ncnn | of ncnn |"
    yield "|---|--:|--:|--:|--:|--:|"
    for row in found["models"]:
        ours, ncnn = (seconds_of(row, name) for name in (OURS, NCNN))
        share = f"{ours / ncnn:.2f}" if ours and ncnn else "–"
        opencl = milliseconds(row, peers[0]) if len(peers) > 1 else "–"
        own = (milliseconds(row, OURS), milliseconds(row, OURS, "device"), opencl)
        yield f"| {row['model']} | {' | '.join((*own, milliseconds(row, NCNN), share))} |"


def more_lines(found: dict[str, Any]) -> Iterator[str]:
    costs = found["launch"]
    words = ", ".join(f"{name} {value:.2f} µs" for name, value in costs.items())
    yield f"a launch among {LAUNCHES}: {words}"
    for row in found["pipelines"]:
        for kind in ("first", "again"):
            one = row[kind]
            text = f"{one['pipelines']} pipelines, first run {one['first run']:.3f} s"
            yield f"{row['model']}, {kind}: {text}, the next {one['next run'] * 1e3:.2f} ms"
    for row in found["starts"]:
        ours = ", ".join(f"{name} {one['total']:.3f}" for name, one in row["starts"].items())
        ncnn = row["ncnn"].get("missing") or f"first {row['ncnn']['first']:.3f}"
        ncnn += f", again {row['ncnn']['again']:.3f}" if "again" in row["ncnn"] else ""
        yield f"{row['model']}, starts in s: {ours}; ncnn: {ncnn}"


@click.command(help=__doc__)
@click.argument("models", nargs=-1)
@click.option("--device", default="webgpu", show_default=True)
@click.option("--precision", default="fp32", show_default=True)
@click.option("--seconds", default=20.0, show_default=True, help="Measuring time per model.")
@click.option("--rounds", default=3, show_default=True, help="Number of starts.")
@click.option("--driver", default="", help="Library for the Vulkan manifest.")
@click.option("--wheels", type=click.Path(path_type=Path), help="Folder with wheels to unpack.")
@click.option(
    "--json", "output", type=click.Path(path_type=Path), help="Write the results to this JSON file."
)
def main(models: tuple[str, ...], **options: Any) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder, packages = Path(name), Path(name, "packages")
        click.echo(f"Vulkan driver: {find_vulkan_driver(folder, options['driver'])}")
        os.environ.update(unpack(options["wheels"], packages))  # for all processes that follow
        sys.path += [str(packages)]
        results = measure_all(models, options)
    if options["output"] is not None:
        write_json(options["output"], results)


def measure_all(models: tuple[str, ...], options: dict[str, Any]) -> dict[str, Any]:
    began = time.perf_counter()
    device = determine_facts(find_device(options["device"]), MEASURED)
    probe_seconds = time.perf_counter() - began
    click.echo(f"{device}: {device.units} units, found in {probe_seconds:.2f} s")
    files, name = [*find_models(models or [*NETWORKS], SHARED)], device.address
    precision = options["precision"]
    peers = [*beside(device), NCNN]
    tasks = [Task(file, 1, precision, name, 1) for file in files]
    limits = {"patience": 300.0, "seconds": options["seconds"]}
    found: dict[str, Any] = {"setting": describe_setting(device), "units": device.units}
    found |= {"precision": precision, "models": run_all(tasks, peers, limits, {})}
    click.echo("\n".join(table(found, peers)))
    found["launch"] = launch_costs(device)
    found["pipelines"] = [time_pipelines(file, name, precision) for file in files]
    found["starts"] = [time_starts(file, name, precision, options["rounds"]) for file in files]
    click.echo("\n".join(more_lines(found)))
    return found


if __name__ == "__main__":
    main()
