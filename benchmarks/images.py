"""Compares reading weights through images with reading them from buffers.

    python benchmarks/images.py MODEL… [--device NAME] [--precision mixed]

Both plans are lists of launches with the same tiles; their runs are interleaved.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from statistics import median

import click

from fourfold.backends import determine_facts, find_device, make_player
from fourfold.compiler.compile import load_model, prepare_lowering
from fourfold.device import IMAGES, DeviceInfo
from fourfold.options import CompileOptions
from fourfold.plan import BufferUse, Plan

WAYS = {"buffer": False, "image": True}
WARM_UP = 3


def plans_of(model: Path, device: DeviceInfo, precision: str) -> dict[str, Plan]:
    options = CompileOptions(precision, launches="list")
    lowering = prepare_lowering(load_model(str(model), options).graph, device, options)
    facts = determine_facts(lowering.device, IMAGES)
    return {
        way: lowering._replace(device=replace(facts, prefers_images=prefers)).plan()
        for way, prefers in WAYS.items()
    }


def times_of(plans: dict[str, Plan], device: DeviceInfo, seconds: float) -> dict[str, list[float]]:
    """Return the seconds of each run; runs are interleaved."""
    players = {way: make_player(device, plan) for way, plan in plans.items()}
    times: dict[str, list[float]] = {way: [] for way in players}
    for player in players.values():
        for _ in range(WARM_UP):
            player.replay()
    stop = time.perf_counter() + seconds
    while time.perf_counter() < stop:
        for way, player in players.items():
            began = time.perf_counter()
            player.replay()
            times[way].append(time.perf_counter() - began)
    for player in players.values():
        player.close()
    return times


def line_of(model: Path, device: DeviceInfo, precision: str, seconds: float) -> str:
    plans = plans_of(model, device, precision)
    launches = plans["image"].launches
    uses = [one for launch in launches for one in launch.arguments if isinstance(one, BufferUse)]
    count = sum(use.image is not None for use in uses)
    times = times_of(plans, device, seconds)
    middle = {way: median(some) * 1e3 for way, some in times.items()}
    least = {way: min(some) * 1e3 for way, some in times.items()}
    cells = [f"{middle[way]:.2f} ({least[way]:.2f})" for way in WAYS]
    ratios = [f"{some['image'] / some['buffer']:.2f}" for some in (middle, least)]
    return f"| {model.stem} | {count} of {len(launches)} | {' | '.join([*cells, *ratios])} |"


@click.command(help=__doc__)
@click.argument("models", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--device", default="auto", show_default=True)
@click.option("--precision", default="fp32", show_default=True)
@click.option("--seconds", default=10.0, show_default=True, help="Measuring time per model.")
def main(models: tuple[Path, ...], device: str, precision: str, seconds: float) -> None:
    info = find_device(device)
    click.echo("| ms | launches with images | buffer | image | ratio | ratio of minima |")
    click.echo("|---|--:|--:|--:|--:|--:|")
    for model in models:
        click.echo(line_of(model, info, precision, seconds))


if __name__ == "__main__":
    main()
