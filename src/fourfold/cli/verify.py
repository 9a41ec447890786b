"""Compare outputs with the reference CPU runtime (LiteRT, ONNX Runtime, …).

If outputs differ, every layer is compared by itself, and the verdict names the layer at fault and
whose rounding it is. --layers compares layers in any case: how much each adds to the difference,
and which loses most with --precision mixed. Without an installed CPU runtime, outputs are compared
with the NumPy definitions of operators.

--dataset measures accuracy on labelled pictures instead: top-1 and top-5, or mean average precision
(mAP), on the device and in the CPU runtime. Ctrl-C prints the accuracy so far.

The exit status is 1 if results of fourfold are wrong, and 0 if all outputs agree or if rounding of
the runtime explains every difference. With --dataset it is 1 if the device is more than 1 point,
or one picture, less accurate than the runtime.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from fourfold.cli._accuracy import DatasetArguments, dataset_options, show_accuracy
from fourfold.cli._frames import FITTING
from fourfold.cli._images import PictureOptions, stated_options
from fourfold.cli._inputs import read_input, read_photograph
from fourfold.cli._options import (
    ModelArguments,
    examples,
    json_option,
    model_options,
    placement_options,
    seed_option,
)
from fourfold.cli._show import echo, show_json
from fourfold.errors import InputError
from fourfold.processing.pictures import EXTENSIONS
from fourfold.runtime.random_inputs import InputPort, random_inputs
from fourfold.support.display import visible
from fourfold.support.lazy import lazy_import

if TYPE_CHECKING:
    from rich import console as consoles
    from rich import table as tables

    from fourfold.tools.report import layers as layer_verdicts
    from fourfold.tools.report import verify as verifiers
    from fourfold.tools.report.layers import Layer
    from fourfold.tools.report.verification import Output, Verification
    from fourfold.vision.meaning import Described
else:
    consoles, tables = lazy_import("rich.console"), lazy_import("rich.table")
    layer_verdicts = lazy_import("fourfold.tools.report.layers")
    verifiers = lazy_import("fourfold.tools.report.verify")  # imports the compiler

NamedSample = tuple[str, dict[str, np.ndarray]]
INPUT_EXTENSIONS = {".npy", ".png", ".jpg", ".jpeg", ".bmp"}
WIDTH = 80  # characters of a line
GAP = 2  # characters between columns
MIN_NAME_WIDTH = 18  # characters of a layer's name
MIN_END_WIDTH = 8  # shorter ends of a name are not worth keeping its beginning for
MAX_LOSSES = 3  # layers listed for the precision that they lose
MAX_LAYERS = 12  # layers listed without --layers
EXAMPLES = examples(
    "fourfold verify model.tflite",
    "fourfold verify model.onnx --layers --precision mixed --inputs samples/",
    "fourfold verify int8.tflite --dataset photos/ --float-model float.tflite",
    "fourfold verify detector.onnx --dataset val2017.json --images val2017/",
)


@click.command(help=__doc__, epilog=EXAMPLES)
@model_options
@placement_options
@click.option(
    "--inputs",
    "folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder with inputs: NAME.npy for each input, or for a model with one input any number of "
    "arrays and pictures.  [default: random inputs]",
)
@click.option("--layers", is_flag=True, help="Compare every layer, even if the outputs agree.")
@dataset_options
@partial(stated_options, names=FITTING)
@seed_option
@json_option
def command(
    arguments: ModelArguments,
    folder: Path | None,
    layers: bool,
    pictures: PictureOptions,
    seed: int,
    as_json: bool,
    measured: DatasetArguments,
) -> None:
    if measured.check(folder is not None or layers):
        show_accuracy(arguments, measured, pictures, seed, as_json)
        return
    reports: dict[str, Any] = {}
    with verifiers.Verifier(arguments.model, arguments.options) as verifier:
        if verifier.note:
            definitions = f"the {verifier.engine.title} definitions of operators"
            echo(f"compared with {definitions}, not with a runtime:\n{verifier.note}", err=True)
        samples = InputSamples(verifier.session, pictures)
        for title, arrays in samples.read(folder, seed):
            result = verifier.verify(arrays, layers=layers)
            reports[title] = result.to_json()
            if not as_json:
                _show(f"{Path(arguments.model).name} with {title}", result, layers)
    agrees = all(report["agrees"] for report in reports.values())
    if as_json:
        about = {"model": arguments.model, "preprocessing": samples.preprocessing}
        show_json({**about, "agrees": agrees, "samples": reports})
    click.get_current_context().exit(0 if agrees else 1)


class InputSamples:
    """Reads the inputs to compare on. The preprocessing of pictures is printed once."""

    def __init__(self, model: Described, pictures: PictureOptions) -> None:
        self._model, self._pictures = model, pictures
        self.preprocessing: dict[str, Any] | None = None

    def read(self, folder: Path | None, seed: int) -> Iterator[NamedSample]:
        """Yield a title and arrays for each sample in a folder, or one random sample."""
        ports = self._model.inputs
        if folder is None:
            yield f"random inputs, seed {seed}", random_inputs(ports, seed)
            return
        if len(ports) > 1:
            files = {port.name: folder / f"{port.name.replace('/', '_')}.npy" for port in ports}
            yield (
                f"the arrays in {folder.name}",
                {port.name: self._read(files[port.name], port) for port in ports},
            )
            return
        paths = sorted(path for path in folder.iterdir() if path.suffix.lower() in INPUT_EXTENSIONS)
        if not paths:
            what, why = f"{folder} has no inputs", "none of its files is an array or a picture"
            raise InputError(what, why, "put arrays (.npy) or pictures into the folder")
        for path in paths:
            yield path.name, {ports[0].name: self._read(path, ports[0])}

    def _read(self, path: Path, port: InputPort) -> np.ndarray:
        if path.suffix.lower() not in EXTENSIONS:
            return read_input(path, port, self._model, self._pictures)
        taken = read_photograph(path, port.name, self._model, self._pictures)
        if self.preprocessing is None and taken.text:
            echo(f"pictures: {taken.text}", err=True)
        self.preprocessing = taken.preprocessing
        return taken.array


def short(name: str, limit: int = 48) -> str:
    """Return the first of the names that an exporter joined, or its end if that is too long."""
    first = name.split(";")[0]
    return first if len(first) <= limit else f"…{first[1 - limit :]}"


def short_paths(names: Sequence[str], limit: int) -> list[str]:
    """Return names without their common path; long ones keep their first part and their end."""
    paths = [name.split(";")[0].split("/") for name in names]
    while len(paths) > 1 and all(len(path) > 1 and path[0] == paths[0][0] for path in paths):
        paths = [path[1:] for path in paths]
    return [_short_path(path, limit) for path in paths]


def _short_path(path: Sequence[str], limit: int) -> str:
    full = "/".join(path)
    left = limit - len(path[0]) - len("/…")
    if len(full) <= limit or left < MIN_END_WIDTH:
        return short(full, limit)
    return f"{path[0]}/…{full[-left:]}"


def _show(title: str, found: Verification, layers: bool) -> None:
    where = f"in {found.precision}, compared with {found.engine}\non {found.device}"
    echo(f"{title}\n{where}\n")
    _show_outputs(found.outputs)
    shown = _worth_showing(found, layers)
    if shown:
        echo("")
        _show_layers(shown)
    if layers:
        _show_losses(found)
    echo("")
    if found.layers:
        echo(_counts(found))
    echo(fill(found.summary, WIDTH, break_long_words=False))


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
    """Print a table of layers. Quantized values have a column of steps: each layer adds about half
    a step by itself.
    """
    on_grid = [bool(layer.step) for layer in layers]
    columns = {
        "op": [layer.op for layer in layers],
        ">adds": ["-" if one.own is None else f"{one.own.largest:.1e}" for one in layers],
        ">total": [f"{layer.difference.largest:.1e}" for layer in layers],
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
    names = short_paths([layer.name for layer in layers], max(WIDTH - taken, MIN_NAME_WIDTH))
    rows = zip(names, *columns.values(), strict=True)
    _print_columns(("layer", *columns), rows)


def _worth_showing(found: Verification, layers: bool) -> tuple[Layer, ...]:
    """Return all layers if they were requested, else the first that explain a difference."""
    if layers:
        return found.layers
    if all(output.is_near for output in found.outputs) and found.agrees:
        return ()
    carried = layer_verdicts.CARRIED
    differing = [one for one in found.layers if not one.agrees and one.verdict != carried]
    faults = [layer for layer in differing if layer.is_fault]
    return tuple((faults or differing)[:MAX_LAYERS])


def _show_losses(found: Verification) -> None:
    worst = [
        layer for layer in found.largest_losses[:MAX_LOSSES] if layer.own and layer.own.largest
    ]
    if worst:
        echo(f"\ndifference that layers add by themselves in {found.precision}, largest first:")
    for layer in worst:
        assert layer.own is not None
        echo(f"  {layer.own.largest:.1e} of the range in {layer.op} '{short(layer.name, 40)}'")


def _counts(found: Verification) -> str:
    """Return how many of the values that both sides have agree."""
    count = len(found.layers)
    near = sum(one.difference.largest <= one.allowed for one in found.layers)
    return f"{near} of {count} intermediate values agree with those of {found.engine}"


def _steps(count: float | None) -> str:
    return "-" if count is None else f"{count:.4g}"


def _print_columns(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print columns without lines between them, so that they fit into 80 characters."""
    table = tables.Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        justify = "right" if column.startswith(">") else "left"
        table.add_column(column.lstrip(">"), justify=justify)  # type: ignore[arg-type]
    for row in rows:
        table.add_row(*map(visible, row))
    console = consoles.Console(markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = WIDTH
    console.print(table)
