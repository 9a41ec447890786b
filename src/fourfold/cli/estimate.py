"""Estimate the memory and the arithmetic of a model, without running it.

The model may have any format, or be a prepared file. --device null estimates for a generic GPU.
"""

from __future__ import annotations

import click

from fourfold.cli._images import pixels_options
from fourfold.cli._options import (
    ModelArguments,
    examples,
    json_option,
    model_options,
    placement_options,
)
from fourfold.cli._show import echo, show_json
from fourfold.tools.report.estimate import estimate

EXAMPLES = examples(
    "fourfold estimate model.tflite",
    "fourfold estimate model.onnx --device null --precision mixed",
)


@click.command(help=__doc__, epilog=EXAMPLES)
@model_options
@placement_options
@pixels_options
@json_option
def command(arguments: ModelArguments, as_json: bool) -> None:
    report = estimate(arguments.model, **arguments.options.keywords())
    if as_json:
        show_json({"model": arguments.model, **report.to_json()})
    else:
        echo(report)
