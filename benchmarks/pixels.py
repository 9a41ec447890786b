"""Measures the normalization of image bytes in NumPy and on the device.

floats: the network alone, on normalized floats. NumPy: bytes normalized as (x - mean) / std, then
the network. bytes: `Session(pixels=...)`. words: the same with four bytes per pixel (rgba). Runs
are interleaved in turns; the first run of each turn is discarded, because it reloads the weights
of its session into the caches.

python benchmarks/pixels.py mobilenet_v1.tflite --device gpu --precision mixed
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import click
import numpy as np
from setting import describe_setting, relative_error, write_json

import fourfold
from fourfold.cli._timing import Call, Times, timed, warm_up

MEAN, STD = 127.5, 127.5
RUNS_PER_TURN = 5


def normalised(picture: np.ndarray) -> np.ndarray:
    return (picture.astype(np.float32) - np.float32(MEAN)) / np.float32(STD)


def contestants(
    model: Path, device: str, precision: str | None, stack: ExitStack
) -> tuple[dict[str, Call], fourfold.Session]:
    """Return the calls to time, after comparing their results, and the float session."""

    def opened(pixels: fourfold.Pixels | None) -> fourfold.Session:
        return stack.enter_context(
            fourfold.Session(model, device=device, precision=precision, pixels=pixels)
        )

    plain = opened(None)
    rgb, rgba = (opened(fourfold.Pixels(MEAN, STD, order)) for order in ("rgb", "rgba"))
    picture = np.random.default_rng(0).integers(0, 256, rgba.inputs[0].shape, np.uint8)
    three = np.ascontiguousarray(picture[..., :3])
    floats = normalised(three)
    calls: dict[str, Call] = {
        "floats": lambda: plain.run(floats),
        "NumPy": lambda: plain.run(normalised(three)),
        "bytes": lambda: rgb.run(three),
        "words": lambda: rgba.run(picture),
    }
    expected = list(plain.run(floats).values())
    for session, given in ((rgb, three), (rgba, picture)):
        error = relative_error(list(session.run(given).values()), expected)
        if not error < (1e-4 if plain.precision == "fp32" else 2e-2):
            raise click.ClickException(f"pixels give a different result: the error is {error:.1e}")
    return calls, plain


def in_turns(calls: Mapping[str, Call], runs: int, limit: float) -> dict[str, Times]:
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    stop = time.perf_counter() + limit
    while len(seconds["NumPy"]) < runs and (not seconds["NumPy"] or time.perf_counter() < stop):
        for name, call in calls.items():
            seconds[name] += [timed(call) for _ in range(RUNS_PER_TURN)][1:]
    return {name: Times.of(found) for name, found in seconds.items()}


def row(name: str, found: Times, base: Times) -> str:
    parts = (found.median * 1e3, found.min * 1e3, found.median / base.median, found.min / base.min)
    return "| {} | {:.3f} | {:.3f} | {:.3f} | {:.3f} |".format(name, *parts)


def show_times(about: str, times: Mapping[str, Times], base: str) -> None:
    """Print a table of all times, also relative to one of them."""
    click.echo(f"\n{about}, {times[base].runs} runs each\n")
    click.echo(f"| picture | median ms | min ms | of {base}'s median | of its min |")
    click.echo("|---|--:|--:|--:|--:|")
    for name, found in times.items():
        click.echo(row(name, found, times[base]))


@click.command(help=__doc__)
@click.argument("models", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--device", default="auto", show_default=True)
@click.option("--precision", type=click.Choice(("fp32", "mixed", "fp16")))
@click.option("--runs", default=2000, show_default=True, help="Maximum number of runs.")
@click.option("--seconds", default=10.0, show_default=True, help="Time limit per model.")
@click.option(
    "--json", "output", type=click.Path(path_type=Path), help="Write the results to this JSON file."
)
def main(
    models: tuple[Path, ...],
    device: str,
    precision: str | None,
    runs: int,
    seconds: float,
    output: Path | None,
) -> None:
    report: dict[str, object] = {}
    for model in models:
        with ExitStack() as stack:
            calls, session = contestants(model, device, precision, stack)
            for call in calls.values():
                warm_up(call, limit=seconds / 4)
            times = in_turns(calls, runs, seconds)
            report["setting"] = describe_setting(session.device)
            about = f"{model.stem}, {session.precision}, {session.device.name}"
        report[model.stem] = {name: found.as_data() for name, found in times.items()}
        show_times(about, times, "NumPy")
    if output is not None:
        write_json(output, report)


if __name__ == "__main__":
    main()
