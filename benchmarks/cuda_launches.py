"""What one launch takes by CUDA, without a session around it: microseconds.

built:   'whole', as `fourfold prepare` has kernels built, or 'linked', as a first run does.
inputs:  'fetched' by the kernel from pinned memory of the host, or 'there' in the device's.
put in:  by a 'graph', as players do, or by a 'launch'.
flag:    until the host sees that the kernel is done, which tells it so.
driver:  until the driver says so.
each:    of fifty that are put in one after the other: what the GPU takes.

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

MANY = 50
Call = Callable[[], object]


def builds(session: fourfold.Session) -> Iterator[tuple[str, BuiltModule]]:
    """The session's kernels, as a whole and of linked parts where they are built so."""
    device, program = session.device, session.plan.program
    whole = load_binary(device, backend_of(device).build_binary(device, program))
    assert whole is not None
    yield "whole", whole
    yield "linked", build_text(device, program)


def routes(player: Player) -> Iterator[tuple[str, Route]]:
    """A run that fetches its inputs, and one whose inputs are in memory of the device."""
    yield "fetched", player._ports.route()
    make, plan = backend_of(player.info).make_memory, player.plan
    given = [make(player.info, port.type.bytes) for port in plan.inputs]
    for memory, port in zip(given, plan.inputs, strict=True):
        memory.write(np.zeros(port.type.bytes, np.uint8))
    targets = [make(player.info, port.type.bytes) for port in plan.outputs]
    yield "there", player._bound.find(given, targets, player._stream).route


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

    return {"flag": flag, "driver": driver, "each": lambda: driver(MANY)}


def seconds_of(calls: dict[str, Call], runs: int) -> dict[str, float]:
    each = timed(calls["each"], max(runs // MANY, 1)) / MANY
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
        with player._working("timing launches"):
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
@click.option("--json", "output", type=click.Path(path_type=Path), help="Write the numbers here.")
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
                how = (row[key] for key in ("built", "inputs", "put in"))
                times = (f"{1e6 * seconds:.1f}" for seconds in row["seconds"].values())
                table.add_row(path.stem, *how, *times)
    Console().print(table)
    if output is not None:
        write_json(output, {"setting": describe_setting(info), "launches": found})


if __name__ == "__main__":
    main()
