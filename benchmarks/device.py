"""Models on one device: NumPy to NumPy, and the device's own part, with nothing beside it.

    python benchmarks/device.py MODEL… [--device D] [--precision P] [--runs N]

For machines where peers run in processes of their own: measure both in one session, and compare.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import click

import fourfold
from fourfold.cli._inputs import random_inputs
from fourfold.players.opencl import Player

WARM_UP = 30


def milliseconds(run: Callable[[], object], runs: int) -> tuple[float, float]:
    """The median and the shortest of many, after some that do not count."""
    times = []
    for _ in range(WARM_UP + runs):
        began = time.perf_counter()
        run()
        times.append((time.perf_counter() - began) * 1e3)
    return median(times[WARM_UP:]), min(times)


@click.command(help=__doc__)
@click.argument("models", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--device", default="auto", show_default=True)
@click.option("--precision", default="mixed", show_default=True)
@click.option("--runs", default=300, show_default=True)
def main(models: tuple[Path, ...], device: str, precision: str, runs: int) -> None:
    print("| model | ms | min | device ms | min | launches | stages | arena MiB |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    for model in models:
        with fourfold.Session(model, device=device, precision=precision) as session:
            arrays, plan = random_inputs(session.inputs, 0), session.plan
            whole = milliseconds(lambda s=session, a=arrays: s.run(a), runs)
            player = session._ready.player
            own = milliseconds(player.replay, runs) if isinstance(player, Player) else (0.0, 0.0)
            numbers = " | ".join(f"{number:.3f}" for number in (*whole, *own))
            counts = f"{len(plan.launches)} | {plan.stages} | {plan.bytes('arena') / 2**20:.2f}"
        print(f"| {model.stem} | {numbers} | {counts} |", flush=True)


if __name__ == "__main__":
    main()
