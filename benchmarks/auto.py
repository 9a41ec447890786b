"""Checks that placement='measure' is never slower than LiteRT alone, for all models of a folder.

Runs of both engines are interleaved, a few at a time. The first run of each turn is discarded,
because threads of the other engine may still spin. A ratio of 0.8 means that fourfold took 0.8 of
LiteRT's time, wherever it chose to run. Plans are compiled first and cached in `--cache`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import click
from setting import SHARED

import fourfold
from fourfold.backends.cpu.litert.interpreter import make_interpreter
from fourfold.runtime.random_inputs import random_inputs

ROUNDS, TURN, SECONDS = 60, 4, 2.0
Run = Callable[[], object]


def litert_run(model: Path, session: fourfold.Session, arrays: dict) -> Run:
    interpreter = make_interpreter(model.read_bytes(), os.cpu_count())
    interpreter.allocate_tensors()
    inputs, outputs = interpreter.get_input_details(), interpreter.get_output_details()
    input_arrays = [arrays[info.name] for info in session.inputs]

    def run() -> object:
        for detail, array in zip(inputs, input_arrays, strict=True):
            interpreter.set_tensor(detail["index"], array)
        interpreter.invoke()
        return [interpreter.get_tensor(detail["index"]) for detail in outputs]

    return run


def timed(run: Run) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def race(ours: Run, theirs: Run) -> tuple[float, float, float]:
    """Return the ratios of the medians and of the minima, and LiteRT's median."""
    times: tuple[list[float], list[float]] = ([], [])
    stop = time.perf_counter() + SECONDS
    for number in range(ROUNDS + 1):
        for run, noted in zip((ours, theirs), times, strict=True):
            turn = [timed(run) for _ in range(TURN)]
            noted.extend(turn[1:] if number else ())
        if number > 1 and time.perf_counter() > stop:
            break
    middle, other = median(times[0]), median(times[1])
    return middle / other, min(times[0]) / min(times[1]), other


def measure(model: Path, cache: str) -> str | None:
    """Return a line of the table; None if LiteRT alone cannot run the model."""
    with fourfold.Session(model, placement="measure", cache=cache) as session:
        arrays = random_inputs(session.inputs, 0)
        try:
            theirs = litert_run(model, session, arrays)
        except (RuntimeError, ValueError):
            return None
        middle, least, other = race(lambda: session.run(arrays), theirs)
        where = "the device" if session.placement.whole else "the CPU, or both"
    return f"| {model.stem} | {other * 1e3:.3f} | {middle:.2f} | {least:.2f} | {where} |"


@click.command(help=__doc__)
@click.argument("models", nargs=-1, type=click.Path(exists=True, path_type=Path))
@click.option(
    "--cache", type=click.Path(), help="Cache folder for plans (default: a temporary folder)."
)
@click.option("--build", is_flag=True, help="Only compile and cache the plans.")
def main(models: tuple[Path, ...], cache: str | None, build: bool) -> None:
    paths = models or tuple(sorted((SHARED / "models" / "tflite").glob("*.tflite")))
    with TemporaryDirectory() as passing:
        kept = cache or passing
        for model in paths:
            with fourfold.Session(model, placement="gpu", cache=kept) as session:
                session.run(random_inputs(session.inputs, 0))
        if build:
            return
        click.echo("| model | LiteRT ms | of LiteRT's time | of minima | runs on |")
        click.echo("|---|--:|--:|--:|---|")
        for line in filter(None, (measure(model, kept) for model in paths)):
            click.echo(line)


if __name__ == "__main__":
    main()
