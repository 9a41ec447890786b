"""Compare a model's outputs with those of its format's own CPU runtime: LiteRT for TFLite. Without
one, they are compared with the definitions in NumPy.

Where outputs differ, every layer is judged by itself, and the answer names the layer and whose
rounding it is. --layers does so in any case: what each layer adds to the difference, and which
loses most in --precision mixed.

Inputs come from a folder: NAME.npy for each input, or, where the model has one input, any number
of arrays and pictures. Without one they are random. Ends with 1 if anything of ours is wrong, and
with 0 where all agrees or the runtime's own rounding is the whole of a difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import click
import numpy as np

import fourfold
from fourfold.cli._images import Scaling
from fourfold.cli._inputs import read_input
from fourfold.cli._options import ModelArguments, json_option, model_options, seed_option
from fourfold.cli._show import show_json
from fourfold.config import Config
from fourfold.errors import InputError
from fourfold.runtime.random_inputs import InputPort, random_inputs
from fourfold.support.lazy import lazy_import

if TYPE_CHECKING:
    from rich import console as consoles
    from rich import table as tables

    from fourfold.backends.cpu.protocol import CpuEngine
    from fourfold.tools.report import layers as judged
    from fourfold.tools.report import rival as rivals
    from fourfold.tools.report import verify as verdicts
    from fourfold.tools.report.layers import Layer
    from fourfold.tools.report.verification import Output, Verification
else:
    consoles, tables = lazy_import("rich.console"), lazy_import("rich.table")
    judged, rivals = (
        lazy_import("fourfold.tools.report.layers"),
        lazy_import("fourfold.tools.report.rival"),
    )
    verdicts = lazy_import(
        "fourfold.tools.report.verify"
    )  # with the compiler, for what a layer gives

NamedSample = tuple[str, dict[str, np.ndarray]]
FILES = {".npy", ".png", ".jpg", ".jpeg", ".bmp"}
WIDTH = 80
GAP = 2  # characters between columns
NARROWEST = 18  # characters of a layer's name
FEWEST = 8  # of them that are left for its end, or its beginning is left out instead
LOSSES = 3  # layers that are named for what they lose
MOST_SHOWN = 12  # layers that are shown where nobody asked for all


@click.command(help=__doc__)
@model_options
@click.option("--inputs", "folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--layers", is_flag=True, help="Accuracy by layer, even where outputs agree.")
@seed_option
@json_option
def command(
    arguments: ModelArguments, folder: Path | None, layers: bool, seed: int, as_json: bool
) -> None:
    reports: dict[str, Any] = {}
    rival = rivals.find_rival(arguments.readable.content)
    if rival.reason:
        words = f"our own definitions of operators in {rival.engine.title}, not with a runtime"
        click.echo(f"compared with {words}:\n{rival.reason}", err=True)
    with arguments.open(follow_batch=False) as session:  # as other runtimes take reshapes
        for title, arrays in samples(session.inputs, folder, seed):
            found = verify_arrays(arguments, session, rival.engine, arrays, layers)
            reports[title] = found.to_json()
            if not as_json:
                _show(f"{Path(arguments.model).name} with {title}", found, layers)
    agrees = all(report["agrees"] for report in reports.values())
    if as_json:
        show_json({"model": arguments.model, "agrees": agrees, "samples": reports})
    click.get_current_context().exit(0 if agrees else 1)


def verify_arrays(
    arguments: ModelArguments,
    session: fourfold.Session,
    engine: CpuEngine,
    arrays: dict[str, np.ndarray],
    layers: bool,
) -> Verification:
    session.reset()
    options = arguments.compile_options(Config.from_environment())
    sample = verdicts.Sample(
        arguments.readable.content,
        session.device,
        replace(options, precision=session.precision, follow_batch=False),
        list(arrays.values()),
        list(session.run(arrays).values()),
        [info.name for info in session.outputs],
    )
    model = rivals.model_of_signature(arguments.readable.content, arguments.signature)
    theirs = engine.open_model(model, arrays, None)()
    return verdicts.verify_sample(sample, theirs, engine.title, layers)


def samples(ports: Sequence[InputPort], folder: Path | None, seed: int) -> Iterator[NamedSample]:
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
    return first if len(first) <= most else f"…{first[1 - most :]}"


def short_paths(names: Sequence[str], most: int) -> list[str]:
    """Names as paths without what all begin with; of a long one the first part and the end."""
    paths = [name.split(";")[0].split("/") for name in names]
    while len(paths) > 1 and all(len(path) > 1 and path[0] == paths[0][0] for path in paths):
        paths = [path[1:] for path in paths]
    return [_short_path(path, most) for path in paths]


def _short_path(path: Sequence[str], most: int) -> str:
    whole = "/".join(path)
    left = most - len(path[0]) - len("/…")
    if len(whole) <= most or left < FEWEST:
        return short(whole, most)
    return f"{path[0]}/…{whole[-left:]}"


def _show(title: str, found: Verification, layers: bool) -> None:
    click.echo(f"{title}\nin {found.precision}, beside {found.engine}\non {found.device}\n")
    _show_outputs(found.outputs)
    shown = _worth_showing(found, layers)
    if shown:
        click.echo("")
        _show_layers(shown)
    if layers:
        _show_losses(found)
    click.echo("")
    if found.layers:
        click.echo(_counts(found))
    click.echo(fill(_verdict(found), WIDTH, break_long_words=False))


def _show_outputs(outputs: Iterable[Output]) -> None:
    columns = ("output", ">max abs", ">of range", ">cosine", ">PSNR", ">steps", ">top-1", "verdict")
    rows = (
        (
            short(output.name, 11),
            f"{output.difference.absolute:.1e}",
            f"{output.difference.largest:.1e}",
            f"{output.difference.cosine:.5f}",
            f"{output.difference.psnr:.0f} dB" if np.isfinite(output.difference.psnr) else "-",
            _steps(output.steps),
            f"{output.difference.same_top:.0%}",
            output.verdict,
        )
        for output in outputs
    )
    _print_columns(columns, rows)


def _show_layers(layers: Sequence[Layer]) -> None:
    """Steps are those of quantised values, of which each adds about half of one by itself."""
    on_grid = [bool(layer.step) for layer in layers]
    columns = {
        "op": [layer.op for layer in layers],
        ">adds": ["-" if one.own is None else f"{one.own.largest:.1e}" for one in layers],
        ">in all": [f"{layer.difference.largest:.1e}" for layer in layers],
        ">steps": [_steps(layer.steps) for layer in layers],
        "verdict": [layer.verdict for layer in layers],
    }
    if all(on_grid):
        del columns[">adds"]
    if not any(on_grid):
        del columns[">steps"]
    taken = sum(
        max(map(len, [title.lstrip(">"), *cells])) + GAP for title, cells in columns.items()
    )
    names = short_paths([layer.name for layer in layers], max(WIDTH - taken, NARROWEST))
    rows = zip(names, *columns.values(), strict=True)
    _print_columns(("layer", *columns), rows)


def _worth_showing(found: Verification, layers: bool) -> tuple[Layer, ...]:
    """All where they were asked for; else the first of those that have something to say."""
    if layers:
        return found.layers
    if all(output.is_near for output in found.outputs) and found.agrees:
        return ()
    telling = [one for one in found.layers if not one.agrees and one.verdict != judged.CARRIED]
    faults = [layer for layer in telling if layer.is_fault]
    return tuple((faults or telling)[:MOST_SHOWN])


def _show_losses(found: Verification) -> None:
    worst = [layer for layer in found.largest_losses[:LOSSES] if layer.own and layer.own.largest]
    if worst:
        click.echo(f"\nwhat our layers add by themselves in {found.precision}, most first:")
    for layer in worst:
        assert layer.own is not None
        click.echo(
            f"  {layer.own.largest:.1e} of the range in {layer.op} '{short(layer.name, 40)}'"
        )


def _counts(found: Verification) -> str:
    """Of the values that both sides have, how many agree."""
    count = len(found.layers)
    near = sum(one.difference.largest <= one.allowed for one in found.layers)
    return f"{near} of {count} values on the way agree with those of {found.engine}"


def _verdict(found: Verification) -> str:
    if not found.agrees:
        return f"differs from {found.engine}: {found.reason}"
    if not found.reason:
        return f"all agree with {found.engine}"
    return f"right, though not the same: {found.reason}"


def _steps(count: float | None) -> str:
    return "-" if count is None else f"{count:.4g}"


def _print_columns(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Columns without lines between them, so that eighty characters have room for them."""
    table = tables.Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        justify = "right" if column.startswith(">") else "left"
        table.add_column(column.lstrip(">"), justify=justify)  # type: ignore[arg-type]
    for row in rows:
        table.add_row(*row)
    console = consoles.Console(markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = WIDTH
    console.print(table)
