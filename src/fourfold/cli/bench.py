"""Measure a model's speed, beside its format's own CPU runtime where that is installed: LiteRT for
TFLite.

Runs until the times settle, then takes turns run by run: inputs from NumPy, outputs to NumPy.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np

from fourfold.cli._images import pixels_options
from fourfold.cli._options import ModelArguments, json_option, model_options
from fourfold.cli._profile import profile_data, show_profile
from fourfold.cli._show import byte_count, duration, progress, show_json, show_table
from fourfold.cli._timing import Call, Times, take_turns, warm_up
from fourfold.cli._trace import trace_option, traced
from fourfold.compile import load_model
from fourfold.config import Config
from fourfold.errors import InputError, ModelError
from fourfold.report.rival import find_rival, model_of_signature
from fourfold.report.run_parts import measure_parts
from fourfold.runtime.profile import Profile
from fourfold.runtime.random_inputs import random_inputs
from fourfold.session import Session

OURS = "fourfold"
TRACED_RUNS = 5
WARM_UP = 10  # runs on another machine before those that count


@click.command(help=__doc__)
@model_options
@click.option("--runs", type=click.IntRange(1), default=200, show_default=True, help="At most.")
@click.option(
    "--seconds", type=click.FloatRange(0), default=10.0, show_default=True, help="At most."
)
@click.option("--profile", is_flag=True, help="Time each kernel, too.")
@click.option("--compare/--no-compare", default=True, help="With the CPU runtime.")
@click.option(
    "--threads", type=click.IntRange(1), help="Of the CPU runtime.  [default: all processors]"
)
@pixels_options
@trace_option
@json_option
def command(
    arguments: ModelArguments,
    runs: int,
    seconds: float,
    profile: bool,
    compare: bool,
    threads: int | None,
    as_json: bool,
) -> None:
    report: dict[str, Any] = {"model": arguments.model}
    began = time.perf_counter()
    with arguments.open() as session, progress() as bar:
        report |= {"device": str(session.device), "precision": session.precision}
        report["start"] = {"total": time.perf_counter() - began, **session.timings}
        report["launches"] = len(session.plan.launches)
        report["arena"] = session.plan.bytes("arena")
        inputs = random_inputs(session.inputs, seed=0)
        calls: dict[str, Call] = {OURS: partial(session.run, inputs)}
        compare = compare and not session.device.remote  # a CPU of this machine is no rival
        rival = open_rival(arguments, inputs, threads) if compare else {}
        calls |= rival
        if session.device.remote and not session.is_in_parts:
            bar.add_task(f"measuring on {session.device.address}", total=None)
            times = {OURS: Times.of(time_elsewhere(session, inputs, runs, seconds))}
        else:
            for name, call in calls.items():
                bar.add_task(f"warming up {name}", total=None)
                warm_up(call, limit=max(seconds, 1.0))
            task = bar.add_task("measuring", total=runs)
            times = take_turns(calls, runs, seconds, partial(bar.advance, task))
        kernels = session.profile(inputs) if profile else Profile(())
        parts = measure_parts(session, inputs)
        with traced(arguments, session):
            for _ in range(TRACED_RUNS if arguments.trace else 0):
                session.run(inputs)
    report["seconds"] = {name: found.as_data() for name, found in times.items()}
    report["compared"] = bool(rival)
    report["parts"] = None if parts is None else asdict(parts)
    for name in rival:
        report |= {"rival": name, "ratio": times[OURS].median / times[name].median}
    report |= profile_data(kernels)
    (show_json if as_json else _show)(report)


def time_elsewhere(
    session: Session, inputs: Mapping[str, np.ndarray], runs: int, limit: float
) -> list[float]:
    """Seconds of runs by the clock of another machine, where arrays are that machine's."""
    took = session.run_seconds(inputs, WARM_UP)[-1]
    return session.run_seconds(inputs, max(1, min(runs, round(limit / max(took, 1e-6)))))


def real_inputs(
    arguments: ModelArguments, inputs: Mapping[str, np.ndarray]
) -> Mapping[str, np.ndarray]:
    """What the CPU runtime gets: pictures as the model takes them, ready made."""
    if arguments.pixels is None:
        return inputs
    options = arguments.compile_options(Config.from_environment())
    loaded = load_model(arguments.readable.content, options)
    names = dict(zip(loaded.model.input_names, loaded.model.main.arguments, strict=True))
    pictures = {
        name: loaded.asked[value].numbers(inputs[name], loaded.model.main.types[value])
        for name, value in names.items()
        if value in loaded.asked
    }
    return {**inputs, **pictures}


def open_rival(
    arguments: ModelArguments, inputs: Mapping[str, np.ndarray], threads: int | None
) -> Mapping[str, Call]:
    """The CPU runtime of the model's format by its title; none where there is nothing to measure
    beside, which is told.
    """
    try:
        rival = find_rival(arguments.readable.content)
        if rival.reason:
            click.echo(f"nothing is measured beside it: {rival.reason}", err=True)
            return {}
        model = model_of_signature(arguments.readable.content, arguments.signature)
        given = real_inputs(arguments, inputs)
        run = rival.engine.open_model(model, given, threads or os.cpu_count() or 1)
    except (InputError, ModelError) as error:
        click.echo(f"{error.what}: {error.why}", err=True)
        return {}
    return {f"{rival.engine.title} CPU": run}


def _show(report: Mapping[str, Any]) -> None:
    rows = [
        (name, *(duration(found[key]) for key in ("median", "min", "p90")), found["runs"])
        for name, found in report["seconds"].items()
    ]
    title = f"{Path(report['model']).name} on {report['device']}, {report['precision']}"
    show_table(title, ("", ">median", ">min", ">p90", ">runs"), rows)
    if report["compared"]:
        click.echo(f"{OURS} takes {report['ratio']:.2f}× the time of {report['rival']}")
    if report["parts"]:
        shown = (f"{name} {duration(took)}" for name, took in report["parts"].items())
        click.echo(f"the shortest run by its parts: {', '.join(shown)}")
    stages = ", ".join(f"{name} {duration(took)}" for name, took in report["start"].items())
    click.echo(f"start: {stages}")
    memory = byte_count(report["arena"])
    click.echo(f"{report['launches']} launches, {memory} of memory for values")
    if report["kernels"]:
        show_profile(report)
