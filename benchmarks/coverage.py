"""Reports where each model of a folder runs, and the error relative to LiteRT.

Each model is opened with placement='gpu', so that the device runs every operator it can, and gets
seeded random inputs. The error is the largest difference, relative to the range of an output.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from setting import SHARED, describe_setting, relative_error, replace_section, write_json

import fourfold
from fourfold.backends import find_device
from fourfold.backends.cpu.litert.interpreter import open_file
from fourfold.formats.tflite.reader import read_file
from fourfold.runtime.random_inputs import random_inputs

COMMAND = "python benchmarks/coverage.py --write docs/coverage.md"
HEADING = "## Models"
MIN_REACTION = 1e-2  # smaller changes of an output for other inputs make it inconclusive
PRECISIONS = ("fp32", "mixed")
WEIGHTED = {
    *("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV", "LSTM", "SVDF"),
    *("UNIDIRECTIONAL_SEQUENCE_LSTM", "EMBEDDING_LOOKUP", "BATCH_MATMUL"),
}
ALLOWED = {"fp32": 1e-4, "mixed": 1e-2}


def look_at(path: Path, device: str) -> dict[str, Any]:
    """Return the placement of a model and its error in each precision, or why it fails."""
    row: dict[str, Any] = {"model": path.stem, "errors": {}}
    for precision in PRECISIONS:
        try:
            row |= _run(path, device, precision, row["errors"])
        except fourfold.FourfoldError as error:
            row["failed"] = f"{precision}: {error.what}: {error.why}".replace("\n", " ")
    return row


def _run(path: Path, device: str, precision: str, errors: dict[str, float]) -> dict[str, Any]:
    content = path.read_bytes()
    with fourfold.Session(path, device, precision, placement="gpu", cache=None) as session:
        inputs = random_inputs(session.inputs, seed=0)
        ours = list(session.run(inputs).values())
        placement = session.placement
    theirs = open_file(content, list(inputs.values()), None)()
    other = random_inputs(session.inputs, seed=1)
    reacts = relative_error(open_file(content, list(other.values()), None)(), theirs)
    errors[precision] = relative_error(ours, theirs)
    return {
        "reacts": reacts,
        "operators": len(placement.rows),
        "on_gpu": placement.on_gpu,
        "share": placement.share,
        "parts": [part.target for part in placement.parts],
        "reasons": sorted({f"{r.op}: {r.reason}" for r in placement.fallbacks if not r.able}),
        "kind": kind_of(path),
    }


def kind_of(path: Path) -> str:
    """Return 'q' if activations are quantized, 'w' if only weights are, else ''."""
    graph = read_file(path.read_bytes(), path.name).subgraphs[0]
    values = {index for operator in graph.operators for index in operator.outputs}
    weights = {
        i for operator in graph.operators if operator.op in WEIGHTED for i in operator.inputs
    }
    if any(graph.tensors[index].quantized for index in values):
        return "q"
    return "w" if any(graph.tensors[index].quantized for index in weights - {-1}) else ""


def lines(rows: Sequence[Mapping[str, Any]], setting: Mapping[str, Any]) -> Iterator[str]:
    whole_rows = [
        row for row in rows if row.get("on_gpu") == row.get("operators") and "on_gpu" in row
    ]
    split = [row for row in rows if "on_gpu" in row and row not in whole_rows]
    failed = [row for row in rows if "failed" in row]
    yield HEADING
    yield ""
    yield f"Of {len(rows)} models {len(whole_rows)} run wholly on the GPU, {len(split)} in parts on"
    yield f"GPU and CPU, and {len(failed)} do not run. Errors are the largest difference to LiteRT,"
    yield "relative to the range of the output, for seeded random inputs; what lies beyond 1e-4"
    yield "(fp32) or 1e-2 (mixed) is in bold in float models. Quantised models, marked q, and those"
    yield "of which only the weights are, marked w, have a yardstick of their own above: LiteRT's"
    yield "kernels disagree about these, too. Where other random inputs hardly move LiteRT's own"
    yield "output, marked †, agreement says little. Written by"
    yield f"`{COMMAND}` on {setting['device']} ({setting['platform']}), commit {setting['commit']}."
    yield ""
    yield "| model | operators | on the GPU | of the time | parts | fp32 | mixed | on the CPU |"
    yield "|---|---:|---:|---:|---:|---:|---:|---|"
    for row in rows:
        yield _line(row)


def _line(row: Mapping[str, Any]) -> str:
    if "on_gpu" not in row:
        return f"| {row['model']} | | | | | | | {row['failed']} |"
    mark = f" {row['kind']}" if row["kind"] else ""
    mark += " †" if row["reacts"] < MIN_REACTION else ""
    limits = ALLOWED if not row["kind"] else {}
    errors = (_error(row["errors"].get(name), limits.get(name)) for name in PRECISIONS)
    cells = (
        f"{row['model']}{mark}",
        row["operators"],
        row["on_gpu"],
        f"{row['share']:.0%}",
        len(row["parts"]),
        *errors,
        "; ".join(row["reasons"]) or row.get("failed", ""),
    )
    return f"| {' | '.join(map(str, cells))} |"


def _error(error: float | None, allowed: float | None) -> str:
    if error is None:
        return "-"
    return f"{error:.1e}" if allowed is None or error <= allowed else f"**{error:.1e}**"


@click.command(help=__doc__)
@click.argument("models", nargs=-1, type=click.Path(exists=True, path_type=Path))
@click.option("--device", default="auto", show_default=True)
@click.option(
    "--write", type=click.Path(path_type=Path), help="Markdown page whose section is replaced."
)
@click.option(
    "--json", "as_json", type=click.Path(path_type=Path), help="Write the rows to this JSON file."
)
def main(models: tuple[Path, ...], device: str, write: Path | None, as_json: Path | None) -> None:
    paths = models or tuple(sorted((SHARED / "models" / "tflite").glob("*.tflite")))
    rows = []
    for path in paths:
        rows.append(look_at(path, device))
        click.echo(_line(rows[-1]))
    setting = describe_setting(find_device(device))
    text = "\n".join(lines(rows, setting)) + "\n"
    if write is not None:
        replace_section(write, HEADING, text)
    if as_json is not None:
        write_json(as_json, {"setting": setting, "models": rows})


if __name__ == "__main__":
    main()
