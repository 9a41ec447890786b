"""Measures `session.resize` for a new shape, a cached one, and one that the session keeps.

python benchmarks/resizing.py pnet.tflite=1x241x319x3 ultraface_rfb_320.tflite=2x240x320x3
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import click

import fourfold


def seconds(session: fourfold.Session, shape: tuple[int, ...]) -> float:
    began = time.perf_counter()
    session.resize(shape)
    return time.perf_counter() - began


def measure(model: Path, shape: tuple[int, ...], device: str) -> list[float]:
    """Return the seconds for a new shape, a shape in the cache, and one that the session keeps."""
    with tempfile.TemporaryDirectory() as folder:
        with fourfold.Session(model, device=device, cache=folder) as session:
            own = session.inputs[0].shape
            never = seconds(session, shape)
            session.resize(own)
            ready = seconds(session, shape)
        with fourfold.Session(model, device=device, cache=folder) as session:
            return [never, seconds(session, shape), ready]


@click.command(help=__doc__)
@click.argument("models", nargs=-1, required=True)
@click.option("--device", default="auto", show_default=True)
def main(models: tuple[str, ...], device: str) -> None:
    click.echo("| model | shape | new | in the cache | kept by the session |")
    click.echo("|---|---|--:|--:|--:|")
    for one in models:
        path, _, sizes = one.rpartition("=")
        shape = tuple(int(size) for size in sizes.split("x"))
        times = [f"{taken * 1e3:.1f}" for taken in measure(Path(path), shape, device)]
        click.echo(f"| {Path(path).stem} | {'×'.join(map(str, shape))} | {' | '.join(times)} |")


if __name__ == "__main__":
    main()
