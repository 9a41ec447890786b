"""Simplify models of any format and write them as one file: a .fourfold prepared file, or a
.tflite or an .onnx for other runtimes.

Batch normalizations are folded into weights, constants are folded, and operators without effect are
removed. The report says what each pass changed, where the operators run, and with --verify how far
the outputs moved. An interruption or a full disk leaves an existing file unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

import fourfold
from fourfold import backends
from fourfold.backends.null import NULL_GPU
from fourfold.cli._images import PictureOptions, picture_options
from fourfold.cli._options import (
    PRECISION_HELP,
    ModelPath,
    device_option,
    examples,
    json_option,
    parse_shape,
    seed_option,
    shape_option,
)
from fourfold.cli._show import (
    byte_count,
    duration,
    progress,
    short_name,
    show_json,
    show_line,
    show_table,
    time_left,
)
from fourfold.compiler.convert import make_readable_with_config
from fourfold.compiler.tune import LEVELS
from fourfold.config import PRECISIONS, Config
from fourfold.errors import InputError
from fourfold.export.optimize.answers import Answers
from fourfold.export.optimize.options import TARGETS
from fourfold.export.optimize.report import (
    OptimizedModel,
    OptimizeReport,
    list_operators,
    model_operators,
)
from fourfold.export.quantize.measure import MAX_CHANGED
from fourfold.export.quantize.method import METHODS
from fourfold.export.quantize.ranges import ESTIMATORS
from fourfold.options import SessionOptions
from fourfold.processing.pixels import AUTO
from fourfold.tools.preparation import Progress

SAMPLES = click.Path(exists=True, path_type=Path)
EXAMPLES = examples(
    "fourfold optimize model.tflite -o model.fourfold --tune rapid",
    "fourfold optimize model.onnx -o small.onnx --quantize int8 --calibrate pics/",
)


@click.command(help=__doc__, epilog=EXAMPLES)
@click.argument("models", nargs=-1, type=ModelPath())
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="File to write: .fourfold, .tflite or .onnx.",
)
@click.option(
    "--targets",
    default=",".join(TARGETS),
    show_default=True,
    help="Targets that operators may run on. With 'gpu' alone, all others are errors.",
)
@click.option(
    "--precision", type=click.Choice(PRECISIONS), help=f"For a prepared file. {PRECISION_HELP}"
)
@click.option(
    "--fold-batch/--no-fold-batch",
    default=True,
    help="Fold batch normalizations into weights, or leave them apart.  [default: fold]",
)
@shape_option
@click.option(
    "--inputs",
    default="",
    metavar="NAMES",
    help="Values to become the inputs; operators before them are cut off.",
)
@click.option(
    "--outputs",
    default="",
    metavar="NAMES",
    help="Values to become the outputs; operators after them are cut off.",
)
@click.option(
    "--quantize", type=click.Choice(tuple(METHODS)), help="Quantization method.  [default: none]"
)
@click.option(
    "--calibrate", type=SAMPLES, help="Folder of pictures or arrays that ranges are measured on."
)
@click.option(
    "--ranges",
    metavar="NAME",
    help=f"How ranges are estimated: {', '.join(ESTIMATORS)}.  [default: minmax]",
)
@click.option(
    "--max-loss",
    type=float,
    help="Largest error of the outputs; layers stay float until it is met.  [default: none]",
)
@click.option(
    "--max-changed",
    type=click.FloatRange(0, 1),
    help="Largest share of the samples whose answer may change without a warning.  "
    f"[default: {MAX_CHANGED}]",
)
@click.option(
    "--strict", is_flag=True, help="Fail instead of warning if more answers change; write no file."
)
@click.option(
    "--keep", default="", metavar="NAMES", help="Layers that stay float, with commas between."
)
@device_option
@click.option(
    "--tune",
    type=click.Choice(tuple(LEVELS)),
    default="none",
    show_default=True,
    help="How thoroughly to look for faster kernels for a prepared file.",
)
@click.option(
    "--verify", is_flag=True, help="Compare the outputs with those of the original model."
)
@click.option(
    "--samples",
    type=SAMPLES,
    help="Folder of pictures or arrays to compare on.  [default: random inputs]",
)
@click.option(
    "--list-ops", is_flag=True, help="List the operators that are read and written by format."
)
@click.option(
    "--print-model-ops", is_flag=True, help="List the operators of a model and where they run."
)
@picture_options
@seed_option
@json_option
def command(
    models: tuple[str, ...],
    list_ops: bool,
    print_model_ops: bool,
    as_json: bool,
    **stated: Any,
) -> None:
    if list_ops:
        _list_ops(as_json)
    elif print_model_ops:
        _print_model_ops(models, stated["device"], stated["shapes"], as_json)
    else:
        report = _optimize(models, **stated)
        if as_json:
            show_json(report.to_json())
        else:
            _show(report)
        click.get_current_context().exit(0 if report.agrees else 1)


def _optimize(
    models: tuple[str, ...], output: Path | None, pictures: PictureOptions, **stated: Any
) -> OptimizeReport:
    if not models or output is None:
        missing = "model" if output is not None else "output"
        what, why = f"no {missing} was named", "a model and an output file are needed"
        raise InputError(what, why, "write: fourfold optimize MODEL -o OUT.fourfold")
    with _progress(", ".join(Path(model).name for model in models)) as report:
        pixels = AUTO if pictures.order == AUTO else pictures.stated
        return fourfold.optimize(
            models, output, pixels=pixels, progress=report, **_options(**stated)
        )


def _options(
    shapes: tuple[str, ...], verify: bool, samples: Path | None, seed: int, **stated: Any
) -> dict[str, Any]:
    """Return the command line's options as `fourfold.optimize` takes them."""
    for key in ("targets", "inputs", "outputs", "keep"):
        stated[key] = [name for name in stated[key].split(",") if name]
    inputs = samples if samples is not None else seed if verify else None
    return {**stated, "shapes": dict(parse_shape(text) for text in shapes), "verify": inputs}


@contextmanager
def _progress(title: str) -> Iterator[Progress]:
    with progress("{task.fields[left]}") as bar:
        task = bar.add_task(title, total=None, left="")

        def report(done: int, total: int, name: str, left: float) -> None:
            what = f"{title}: {name}"
            bar.update(task, completed=done, total=total, description=what, left=time_left(left))

        yield report


def _list_ops(as_json: bool) -> None:
    tables = list_operators()
    if as_json:
        show_json({one.name: {"read": one.read, "written": one.written} for one in tables})
        return
    for one in tables:
        show_table(f"read from {one.name}", (f"{one.name} operator", "becomes"), one.read.items())
        if one.written:
            show_table(f"written as {one.name}", ("op", "becomes"), one.written.items())
    rows = ((one.name, len(one.read), len(one.written) or "-") for one in tables)
    show_table("formats", ("format", ">read", ">written"), rows)


def _print_model_ops(
    models: tuple[str, ...], name: str | None, shapes: tuple[str, ...], as_json: bool
) -> None:
    if len(models) != 1:
        what, why = f"{len(models)} models were named", "--print-model-ops takes one"
        raise InputError(what, why, "write: fourfold optimize MODEL --print-model-ops")
    config = Config.from_environment()
    name = name or config.device
    device = NULL_GPU if name == "null" else backends.find_device(name)
    sizes = dict(parse_shape(text) for text in shapes)
    options = SessionOptions(shapes=sizes).compile_options(config)
    title = Path(models[0]).name
    readable = make_readable_with_config(config, models[0])
    operators = model_operators(readable.content, title, device, options)
    if as_json:
        about = {"model": models[0], "device": str(device)}
        show_json({**about, "operators": [asdict(one) for one in operators]})
        return
    rows = ((one.count, one.op, one.runs_on, one.reason) for one in operators)
    show_table(f"{title} on {device.name}", (">count", "operator", "runs on", "why"), rows)


def _show(report: OptimizeReport) -> None:
    size = f"{byte_count(report.bytes_before)} became {byte_count(report.bytes_after)}"
    show_line(f"{report.output}: {size} in {duration(report.seconds)}")
    for model in report.models:
        _show_model(model)
    columns = ("model", "device", "precision", ">launches")
    rows = [tuple(row[name.lstrip(">")] for name in columns) for row in report.prepared]
    if rows:
        show_table("plans", columns, rows)


def _show_model(model: OptimizedModel) -> None:
    passes = [one for one in (*model.passes, *model.fused) if one.changes]
    rows = ((one.name, one.before, one.after, one.summary) for one in passes)
    source = f"from {model.format}" if model.written_as else f"from {model.format}, unchanged"
    title = f"{model.name} {source}: {model.operator_counts}"
    show_table(title, ("pass", ">nodes before", ">after", "what changed"), rows)
    if model.quantization is not None:
        show_line(str(model.quantization))
    elif model.answers is not None and model.answers.picture is not None:
        show_line(f"pictures: {model.answers.picture}")
    show_line(model.placement.summary)
    if not model.placement.whole:
        groups = model.placement.grouped()
        lines = ((len(rows), op, model.placement.title(at), why) for (op, at, why), rows in groups)
        show_table("not on the device", (">count", "op", "runs on", "why"), lines)
    if model.answers is not None:
        _show_answers(model.answers)


def _show_answers(answers: Answers) -> None:
    columns = ("output", ">largest", ">mean", ">allowed", ">same best", "verdict")
    rows = (
        (
            short_name(one.name),
            f"{one.largest:.2e}",
            f"{one.mean:.2e}",
            f"{one.allowed:.0e}" if one.allowed < 1 else "-",
            f"{one.same_best} of {answers.samples}",
            one.verdict,
        )
        for one in answers.outputs
    )
    show_table(f"outputs compared with {answers.engine}", columns, rows)
