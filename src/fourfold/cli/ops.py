"""List the supported operators of each format, the ops they become, and how these run."""

from __future__ import annotations

import sys
from typing import Any

import click

from fourfold.cli._options import examples, json_option
from fourfold.cli._show import show_json, show_line, show_table
from fourfold.formats import formats
from fourfold.ops.base import Op, registry
from fourfold.types import TensorType

EXAMPLES = examples("fourfold ops", "fourfold ops --json")


@click.command(help=__doc__, epilog=EXAMPLES)
@json_option
def command(as_json: bool) -> None:
    ops = {name: _describe(op) for name, op in sorted(registry().items())}
    direct = {folder: form for folder, form in formats().items() if form.converter is None}
    sources = {folder: dict(sorted(form.operators().items())) for folder, form in direct.items()}
    if as_json:
        show_json({**sources, "ops": ops})
        return
    for folder, form in direct.items():
        show_table(f"from {form.name}", (f"{form.name} op", "becomes"), sources[folder].items())
    rows = (
        (name, ", ".join(op["types"]), ", ".join(op["runs"]) or "nothing yet", op["about"])
        for name, op in ops.items()
    )
    show_table("ops", ("op", "tested with", "runs as", "what it does"), rows)
    counts = [f"{len(sources[folder])} ops of {form.name}" for folder, form in direct.items()]
    show_line(", ".join((*counts, f"{len(ops)} ops of fourfold")))


def _describe(op: Op) -> dict[str, Any]:
    """Return an op of the registry as plain data."""
    runs = {"pointwise": op.pointwise, "view": op.view, "kernel": op.variants}
    texts = {text for case in op.cases for text in case.inputs if text is not None}
    module = sys.modules.get(f"fourfold.ops.{op.name}")
    return {
        "about": ((module and module.__doc__) or "").partition("\n")[0],
        "types": sorted({TensorType.parse(text).dtype.value for text in texts}),
        "runs": [name for name, present in runs.items() if present],
        "variants": [variant.name for variant in op.variants],
    }
