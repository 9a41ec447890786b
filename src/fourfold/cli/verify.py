"""Compare a model's outputs, and with --layers every value on the way, with those of its format's
own CPU runtime: LiteRT for TFLite. Without one, they are compared with the definitions in NumPy.

Inputs come from a folder: NAME.npy for each input, or, where the model has one input, any number
of arrays and pictures. Without one they are random. Ends with 1 if anything differs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np

import fourfold
from fourfold.cli._images import Scaling
from fourfold.cli._inputs import read_input
from fourfold.cli._options import ModelArguments, json_option, model_options, seed_option
from fourfold.cli._show import shape_text, show_json, show_table
from fourfold.config import Config
from fourfold.cpu.protocol import CpuEngine
from fourfold.errors import InputError
from fourfold.report.rival import find_rival, model_of_signature
from fourfold.report.verify import (
    Layer,
    Verification,
    compare_layers,
    compare_outputs,
)
from fourfold.runtime.random_inputs import InputPort, random_inputs

Sample = tuple[str, dict[str, np.ndarray]]
FILES = {".npy", ".png", ".jpg", ".jpeg", ".bmp"}


@click.command(help=__doc__)
@model_options
@click.option("--inputs", "folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--layers", is_flag=True, help="Every value on the way, too.")
@seed_option
@json_option
def command(
    arguments: ModelArguments, folder: Path | None, layers: bool, seed: int, as_json: bool
) -> None:
    reports: dict[str, Any] = {}
    rival = find_rival(arguments.readable.content)
    if rival.reason:
        click.echo(f"compared with {rival.engine.title}: {rival.reason}", err=True)
    with arguments.open(follow_batch=False) as session:  # as other runtimes take reshapes
        for title, arrays in samples(session.inputs, folder, seed):
            found = verify_sample(arguments, session, rival.engine, arrays, layers)
            reports[title] = found.to_json()
            if not as_json:
                _show(f"{Path(arguments.model).name} with {title}", found)
    agrees = all(report["agrees"] for report in reports.values())
    if as_json:
        show_json({"model": arguments.model, "agrees": agrees, "samples": reports})
    click.get_current_context().exit(0 if agrees else 1)


def verify_sample(
    arguments: ModelArguments,
    session: fourfold.Session,
    engine: CpuEngine,
    arrays: dict[str, np.ndarray],
    layers: bool,
) -> Verification:
    session.reset()
    ours = list(session.run(arrays).values())
    names = [info.name for info in session.outputs]
    model = model_of_signature(arguments.readable.content, arguments.signature)
    theirs = engine.open_model(model, arrays, None)()
    outputs = compare_outputs(ours, theirs, names, session.precision)
    on_the_way: tuple[Layer, ...] = ()
    if layers:
        options = arguments.compile_options(Config.from_environment())
        options = replace(options, precision=session.precision, follow_batch=False)
        inputs = list(arrays.values())
        on_the_way = compare_layers(arguments.readable.content, session.device, options, inputs)
    device = str(session.device)
    return Verification(engine.title, session.precision, device, outputs, on_the_way)


def samples(ports: Sequence[InputPort], folder: Path | None, seed: int) -> Iterator[Sample]:
    if folder is None:
        yield f"random inputs, seed {seed}", random_inputs(ports, seed)
        return
    if len(ports) > 1:
        files = {port.name: folder / f"{port.name.replace('/', '_')}.npy" for port in ports}
        arrays = {port.name: read_input(files[port.name], port, Scaling()) for port in ports}
        yield f"the arrays in {folder.name}", arrays
        return
    found = sorted(path for path in folder.iterdir() if path.suffix.lower() in FILES)
    if not found:
        what = f"{folder} has no inputs"
        raise InputError(what, "none of its files is an array or a picture", "put some there")
    for path in found:
        yield path.name, {ports[0].name: read_input(path, ports[0], Scaling())}


def short(name: str, most: int = 48) -> str:
    """The first of the names that an exporter strung together, or its end."""
    first = name.split(";")[0]
    return first if len(first) <= most else f"…{first[-most:]}"


def _show(title: str, found: Verification) -> None:
    columns = ("value", "op", ">shape", ">largest", ">mean", ">allowed", ">NaN", "verdict")
    kept = [layer for layer in found.layers if not layer.agrees]
    rows = (
        (
            short(layer.name),
            layer.op,
            shape_text(layer.shape),
            f"{layer.difference.largest:.2e}",
            f"{layer.difference.mean:.2e}",
            f"{layer.allowed:.0e}",
            layer.difference.nan + layer.difference.infinite,
            layer.verdict,
        )
        for layer in (*kept, *found.outputs)
    )
    show_table(f"{title} on {found.device}, {found.precision}", columns, rows)
    if found.layers:
        click.echo(
            f"{len(found.layers) - len(kept)} of {len(found.layers)} values on the way agree"
        )
    if found.first is not None:
        first = found.first
        click.echo(f"first to differ: {first.op} '{first.name}': {first.verdict}")
    else:
        click.echo(f"all agree with {found.engine}")
