"""Measures one launch with CUDA, without a session, in microseconds.

built:   'whole', as built by `fourfold prepare`, or 'linked', as built by a first run.
inputs:  'fetched' by the kernel from pinned host memory, or 'there' in device memory.
put in:  submitted as a 'graph', as the backend does, or as a 'launch'.
flag:    time until the host sees the completion flag that the kernel sets.
driver:  time until the driver reports completion.
each:    time per launch of fifty back-to-back launches: the time on the GPU.

python benchmarks/cuda_launches.py mobilenet_v1 resnet50
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import click
import numpy as np
from networks import NETWORKS, network_file
from rich.console import Console
from rich.table import Table
from setting import WORK, describe_setting, write_json

import fourfold
from fourfold.backends import backend_of, find_device
from fourfold.backends.cuda.player import Player
from fourfold.backends.cuda.program import BuiltModule, build_text, load_binary
from fourfold.backends.cuda.replay import Replay, Route
from fourfold.plan.host_protocol import READY

BURST_LAUNCHES = 50
Call = Callable[[], object]


def builds(session: fourfold.Session) -> Iterator[tuple[str, BuiltModule]]:
    """Yield the kernels of the session, built as a whole and linked from parts."""
    device, program = session.device, session.plan.program
    module = load_binary(device, backend_of(device).build_binary(device, program))
    assert module is not None
    yield "whole", module
    yield "linked", build_text(device, program)


def routes(player: Player) -> Iterator[tuple[str, Route]]:
    """Yield a run that fetches its inputs, and one with inputs in device memory."""
    yield "fetched", player._ports.route()
    make, plan = backend_of(player.info).make_memory, player.plan
    inputs = [make(player.info, port.type.bytes) for port in plan.inputs]
    for memory, port in zip(inputs, plan.inputs, strict=True):
        memory.write(np.zeros(port.type.bytes, np.uint8))
    targets = [make(player.info, port.type.bytes) for port in plan.outputs]
    yield "there", player._bound.find(inputs, targets, player._stream).route


def calls_of(player: Player, replay: Replay) -> dict[str, Call]:
    handshake, stream = player._handshake, player._stream
    assert handshake is not None
    nothing = [None] * len(handshake._inputs)

    def flag() -> None:
        handshake.launch_and_copy(nothing, lambda: replay.put(stream))
        handshake.wait()

    def driver(count: int = 1) -> None:
        handshake._flags[READY] = handshake._pieces
        for _ in range(count):
            replay.put(stream)
        stream.finish()

    return {"flag": flag, "driver": driver, "each": lambda: driver(BURST_LAUNCHES)}


def seconds_of(calls: dict[str, Call], runs: int) -> dict[str, float]:
    each = timed(calls["each"], max(runs // BURST_LAUNCHES, 1)) / BURST_LAUNCHES
    return {**{name: timed(calls[name], runs) for name in ("flag", "driver")}, "each": each}


def timed(call: Call, runs: int) -> float:
    for _ in range(max(runs // 10, 1)):
        call()
    times = []
    for _ in range(runs):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return median(times)


def measure(session: fourfold.Session, runs: int) -> Iterator[dict[str, Any]]:
    for built, module in builds(session):
        player = Player(session.device, session.plan, module)
        with player._convert_errors("timing launches"):
            for inputs, route in routes(player):
                for form in ("graph", "launch"):
                    replay = Replay(route, player._binder)
                    replay._captures = form == "graph"
                    replay.capture()
                    seconds = seconds_of(calls_of(player, replay), runs)
                    player._stream.finish()
                    replay.release()
                    yield {"built": built, "inputs": inputs, "put in": form, "seconds": seconds}
        player.close()


@click.command(help=__doc__)
@click.argument("models", nargs=-1)
@click.option("--device", default="cuda:0", show_default=True)
@click.option("--precision", default="mixed", show_default=True)
@click.option("--runs", type=click.IntRange(1), default=300, show_default=True)
@click.option(
    "--json", "output", type=click.Path(path_type=Path), help="Write the results to this JSON file."
)
def main(
    models: tuple[str, ...], device: str, precision: str, runs: int, output: Path | None
) -> None:
    info, found = find_device(device), []
    table = Table("model", "built", "inputs", "put in", "flag", "driver", "each", safe_box=True)
    for name in models or tuple(NETWORKS):
        path = network_file(name, WORK) if name in NETWORKS else Path(name)
        with fourfold.Session(path, info, precision, cache="memory") as session:
            if session.plan.on_device is None:
                raise click.ClickException(f"{path.stem} is not one launch that fetches its inputs")
            for row in measure(session, runs):
                found.append({"model": path.stem, **row})
                labels = (row[key] for key in ("built", "inputs", "put in"))
                times = (f"{1e6 * seconds:.1f}" for seconds in row["seconds"].values())
                table.add_row(path.stem, *labels, *times)
    Console().print(table)
    if output is not None:
        write_json(output, {"setting": describe_setting(info), "launches": found})


if __name__ == "__main__":
    main()
