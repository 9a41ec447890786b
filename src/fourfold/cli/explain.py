"""Print the model at one compiler stage: graph, rewritten graph, plan or kernels.

graph: as in the file. rewritten: after the rewrite passes. plan: launches and memory. kernels:
their source text. Without --device, the model is compiled for a generic GPU. For a prepared file,
the plan or the kernels that the device would play are printed.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, get_args

import click

from fourfold.backends import find_device
from fourfold.backends.null import NULL_GPU
from fourfold.cli._images import pixels_options
from fourfold.cli._options import (
    ModelArguments,
    examples,
    json_option,
    model_options,
    postprocess_options,
)
from fourfold.cli._show import echo, show_json
from fourfold.config import Config
from fourfold.session import Stage, explain_stage
from fourfold.store.prepared import is_prepared
from fourfold.store.store import configured_store
from fourfold.support.lazy import lazy_import
from fourfold.tools.report.estimate import ANY_GPU
from fourfold.tools.report.prepared_plan import find_prepared_plan

if TYPE_CHECKING:
    from fourfold.cli import _export as exports
else:
    exports = lazy_import("fourfold.cli._export")  # imports the whole compiler

EXAMPLES = examples(
    "fourfold explain model.tflite --stage kernels",
    "fourfold explain model.onnx --export model-explorer -o model.json --times",
)


@click.command(help=__doc__, epilog=EXAMPLES)
@model_options
@click.option(
    "--stage",
    type=click.Choice(get_args(Stage)),
    help="Compiler stage to print.  [default: graph; plan for a prepared file]",
)
@click.option(
    "--full-names",
    is_flag=True,
    help="Print the names of values and all attributes, instead of numbers and types.",
)
@click.option(
    "--export",
    "form",
    type=click.Choice(("model-explorer", "onnx")),
    help="Write the graphs of all stages for Model Explorer, or the rewritten graph as ONNX.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File to write with --export.",
)
@click.option(
    "--times", is_flag=True, help="Run the model too, and export times of nodes (Model Explorer)."
)
@pixels_options
@postprocess_options
@json_option
def command(
    arguments: ModelArguments,
    stage: Stage | None,
    full_names: bool,
    form: str | None,
    output: Path | None,
    times: bool,
    as_json: bool,
) -> None:
    if form is not None:
        exports.export(arguments, form, output, times)
        return
    config = arguments.options.settings()
    if is_prepared(arguments.model):
        stage = stage or "plan"
        text = _prepared_text(arguments, stage, config)
    else:
        stage = stage or "graph"
        options = arguments.compile_options(config)
        text = explain_stage(
            arguments.model,
            stage,
            arguments.device,
            options,
            trust=arguments.options.trust,
            full_names=full_names,
        )
    if as_json:
        show_json({"model": arguments.model, "stage": stage, "text": text})
    else:
        echo(text)


def _prepared_text(arguments: ModelArguments, stage: Stage, config: Config) -> str:
    if arguments.device in (None, NULL_GPU.name):
        return find_prepared_plan(arguments.request(config, ANY_GPU), None).stage_text(stage)
    request = arguments.request(config, find_device(arguments.device))
    return find_prepared_plan(request, configured_store(config)).stage_text(stage)
