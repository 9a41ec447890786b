"""Measures the host time per launch, without kernels and transfers.

cold:    enqueue time of a plan's launches while a pending event blocks the queue, so that no kernel
         can start. A run just before has evicted the caches.
hot:     enqueue time of the same launches again, with warm caches.
loop:    CPU time of the calling thread to enqueue them in a real run, while the driver's threads
         compete for the processors.
chain:   wall time that each further launch of one tiny kernel adds, including the kernel and the
         driver's threads.
thread:  CPU time of the calling thread for a whole `Session.run`, divided by the number of
         launches. Includes both transfers, and the wait if the driver spins.
checks:  time of the checks of `Session.run` before it calls the driver, per run.
whole:   wall time of a run of one tiny kernel: two small transfers, the launch and the wait.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import click
import numpy as np
import pyopencl as cl
from models import default_models
from rich.console import Console
from rich.table import Table
from setting import SHARED, describe_setting, write_json

import fourfold
from fourfold.backends import Player, make_player
from fourfold.codegen.context import KernelOptions
from fourfold.compiler.lower import make_plan
from fourfold.graph import Graph, Node
from fourfold.types import TensorType

LINKS = 200
PREFERRED = ("mobilenet_v1", "mobilenet_v1_025_224_float", "face_detection_short_range")
Times = dict[str, float]


def spread(seconds: list[float]) -> Times:
    """Return the median and both quartiles in microseconds."""
    low, middle, high = (part * 1e6 for part in quantiles(seconds, n=4))
    return {"median": middle, "low": low, "high": high}


def thread_launches(session: fourfold.Session, inputs: dict[str, np.ndarray], rounds: int) -> Times:
    """Measure the CPU time of the calling thread per launch of a whole run."""
    seconds = []
    for _ in range(rounds):
        began = time.thread_time()
        session.run(inputs)
        seconds.append((time.thread_time() - began) / len(session.plan.launches))
    return spread(seconds)


def held_launches(player: Player, rounds: int) -> tuple[Times, Times]:
    """Measure the enqueue time per launch on a blocked queue: after a run, and again."""
    queue, replay = player._queue, player._replay
    context, own = player._context.pointer, queue.pointer
    assert context is not None
    assert own is not None
    held = cl.CommandQueue.from_int_ptr(own.value)  # the same queue, as pyopencl sees it
    cold, hot = [], []
    for _ in range(rounds):
        gate = cl.UserEvent(cl.Context.from_int_ptr(context.value))
        cl.enqueue_barrier(held, wait_for=[gate])
        cold.append(timed(lambda: queue.replay(replay)) / len(replay))
        hot.append(timed(lambda: queue.replay(replay)) / len(replay))
        gate.set_status(cl.command_execution_status.COMPLETE)
        queue.finish()
    return spread(cold), spread(hot)


def free_launches(player: Player, rounds: int) -> Times:
    """Measure the CPU time of the calling thread per launch while kernels run."""
    seconds = []
    for _ in range(rounds):
        began = time.thread_time()
        player._queue.replay(player._replay)
        seconds.append((time.thread_time() - began) / len(player._replay))
        player._queue.finish()
    return spread(seconds)


def tiny_graph() -> Graph:
    kind = TensorType.parse("f32[1,4]")
    node = Node("relu", ("x",), ("y",))
    return Graph((node,), ("x",), ("y",), {"x": kind, "y": kind})


def chain_launches(device: fourfold.DeviceInfo, rounds: int) -> tuple[Times, Times]:
    """Measure the time that each further launch adds, and a run with one launch."""
    short = make_plan(tiny_graph(), device, KernelOptions())
    long = replace(short, launches=short.launches * LINKS)
    players = [make_player(device, plan) for plan in (short, long)]
    arrays = [np.ones((1, 4), np.float32)]
    few, many = [], []
    for _ in range(rounds):
        few.append(timed(lambda: players[0].run(arrays)))
        many.append(timed(lambda: players[1].run(arrays)))
    base = median(few)
    return spread([(one - base) / (LINKS - 1) for one in many]), spread(few)


def timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def choose_model(shared: Path) -> Path:
    paths = {path.stem: path for path in default_models(shared)}
    for name in PREFERRED:
        if name in paths:
            return paths[name]
    raise click.ClickException("no model was found; pass a .tflite file")


def report(model: Path, device: str, rounds: int) -> dict[str, Any]:
    with fourfold.Session(model, device=device) as session:
        inputs = {one.name: np.zeros(one.shape, one.dtype) for one in session.inputs}
        session.run(inputs)
        thread = thread_launches(session, inputs, rounds)
        cold, hot = held_launches(session._instance.executor.player, rounds)
        loop = free_launches(session._instance.executor.player, rounds)
        checks = spread([timed(lambda: session._arrays(inputs)) for _ in range(rounds)])
        chain, whole = chain_launches(session.device, rounds)
        return {
            "setting": describe_setting(session.device),
            "model": model.stem,
            "launches": len(session.plan.launches),
            "microseconds": {
                "cold": cold,
                "hot": hot,
                "loop": loop,
                "chain": chain,
                "thread": thread,
                "checks": checks,
                "whole": whole,
            },
        }


@click.command(help=__doc__)
@click.argument("model", required=False, type=click.Path(exists=True, path_type=Path))
@click.option("--device", default="auto", show_default=True)
@click.option("--rounds", default=500, show_default=True)
@click.option(
    "--shared", default=SHARED, type=click.Path(path_type=Path), help="Folder with models."
)
@click.option(
    "--json", "output", type=click.Path(path_type=Path), help="Write the results to this JSON file."
)
def main(model: Path | None, device: str, rounds: int, shared: Path, output: Path | None) -> None:
    results = report(model or choose_model(shared), device, rounds)
    setting = results["setting"]
    table = Table(header_style="bold")
    for title in ("what", "median µs", "lower quartile", "upper quartile"):
        table.add_column(title, justify="left" if title == "what" else "right")
    titles = {
        "cold": "cold: a launch, after a run",
        "hot": "hot: a launch, enqueued again",
        "loop": "loop: a launch in a run, CPU time",
        "chain": "chain: a further launch with its kernel",
        "thread": "thread: whole run, per launch",
        "checks": "checks: of the inputs, per run",
        "whole": "whole: a run of one tiny kernel",
    }
    for name, title in titles.items():
        times = results["microseconds"][name]
        table.add_row(title, *(f"{times[key]:.2f}" for key in ("median", "low", "high")))
    console = Console()
    console.width = max(console.width, 100)
    about = f"{results['model']}, {results['launches']} launches"
    console.print(f"{setting['device']}, driver {setting['driver']}, {about}")
    console.print(table)
    if output is not None:
        write_json(output, results)


if __name__ == "__main__":
    main()
