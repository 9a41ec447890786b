"""Compares all float models of a folder with LiteRT's CPU interpreter, in fp32 and mixed.

The error is the largest difference of any output, relative to the range of that output (absolute
for a single number below one). Inputs are random. Models that return a constant for random input,
according to the catalog, get a photograph. DeepLab's mask is also compared with the golden mask,
pixel by pixel. Models with int8 weights and float activations ("dynamic range") are listed but not
counted: LiteRT rounds their activations to int8, and fourfold does not.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
from peers.litert import open_litert
from PIL import Image
from setting import SHARED, describe_setting, relative_error, write_json

import fourfold
from fourfold.backends import find_device
from fourfold.runtime.random_inputs import random_inputs

PRECISIONS = {"fp32": 1e-4, "mixed": 1e-2}  # with their error limits
PHOTOGRAPH = "grace_hopper.bmp"
DEEPLAB = "deeplab_v3_257_float.tflite"
SCENE, GOLDEN = "segmentation_input_rotation0.jpg", "segmentation_golden_rotation0.png"
MAX_OPS = 3  # largest number of operators listed per reason
GOLDEN_STEP = 10  # class n is stored as the grey value 10 n


@dataclass(frozen=True)
class Row:
    """Result of one model: its input, the error in each precision, or why it was refused."""

    model: str
    weights: str
    fed: str
    errors: Mapping[str, float]
    refused: str = ""

    @property
    def counts(self) -> bool:
        """Return whether both engines should agree; with int8 weights LiteRT rounds activations."""
        return "dynamic-range" not in self.weights and "int8" not in self.weights

    @property
    def over(self) -> list[str]:
        """The precisions in which the error exceeds the limit."""
        return [one for one, limit in PRECISIONS.items() if self.errors.get(one, 0.0) > limit]

    @property
    def note(self) -> str:
        if self.refused:
            return f"refused: {self.refused}"
        if not self.counts:
            return "not counted: LiteRT rounds values to int8"
        return f"over in {', '.join(self.over)}" if self.over else ""


def is_float(entry: Mapping[str, Any]) -> bool:
    """Return whether activations are float; weights may be fp16 or integers."""
    has_float_ports = all(one["dtype"] != "int8" for one in (*entry["inputs"], *entry["outputs"]))
    kinds = ("float32", "fp16", "dynamic-range")
    return has_float_ports and entry["quant"].startswith(kinds)


def catalog_of(shared: Path) -> list[dict[str, Any]]:
    path = shared / "models" / "catalog.json"
    if not path.is_file():
        raise click.ClickException(f"{path.name} was not found in {path.parent}")
    entries: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return [one for one in entries if one["file"].startswith("tflite/") and is_float(one)]


def picture(path: Path, size: tuple[int, int], low: float = -1.0) -> np.ndarray:
    """Return an image as an input of shape [1, height, width, 3] with pixels from `low` to 1."""
    with Image.open(path) as image:
        small = image.convert("RGB").resize(size, Image.Resampling.BILINEAR)
    pixels = np.asarray(small, np.float32)[None] / 255
    return np.ascontiguousarray(low + (1 - low) * pixels, np.float32)


def inputs_for(
    session: fourfold.Session, entry: Mapping[str, Any], shared: Path
) -> tuple[str, dict[str, np.ndarray]]:
    arrays = random_inputs(session.inputs, seed=0)
    photograph = shared / "inputs" / PHOTOGRAPH
    if not entry["constant_output_on_random_input"]:
        return "random", arrays
    for info in session.inputs:
        if len(info.shape) == 4 and info.shape[-1] == 3 and photograph.is_file():
            arrays[info.name] = picture(photograph, (info.shape[2], info.shape[1]))
            return PHOTOGRAPH, arrays
    return "random (not conclusive)", arrays


def compare(entry: Mapping[str, Any], shared: Path, device: str, threads: int) -> Row:
    """Compare one model in every precision."""
    path = shared / "models" / entry["file"]
    errors, fed = {}, ""
    try:
        for precision in PRECISIONS:
            with fourfold.Session(path, device=device, precision=precision) as session:
                fed, inputs = inputs_for(session, entry, shared)
                rival = open_litert(str(path), list(inputs.values()), threads)
                if rival is None:
                    raise click.ClickException(
                        "LiteRT is not installed: pip install ai-edge-litert"
                    )
                # The second run counts, because it reuses memory. LiteRT also runs twice, because
                # some models have a state.
                session.run(inputs)
                rival()
                errors[precision] = relative_error(list(session.run(inputs).values()), rival())
    except fourfold.UnsupportedError as error:
        return Row(path.stem, entry["quant"], fed, {}, reasons(error.refusals))
    return Row(path.stem, entry["quant"], fed, errors)


def reasons(refusals: Iterable[fourfold.Refusal]) -> str:
    """Return each reason once, with the operators it applies to."""
    ops: dict[str, list[str]] = {}
    for one in refusals:
        names = ops.setdefault(one.reason, [])
        names += [one.op] if one.op not in names else []
    return "; ".join(
        f"{reason} ({', '.join(names[:MAX_OPS])}{', …' if len(names) > MAX_OPS else ''})"
        for reason, names in ops.items()
    )


def masks(shared: Path, device: str, threads: int) -> list[str]:
    """Compare DeepLab's class of each pixel with the golden mask and with LiteRT."""
    model, folder = shared / "models" / "tflite" / DEEPLAB, shared / "inputs"
    missing = [one.name for one in (model, folder / SCENE, folder / GOLDEN) if not one.is_file()]
    if missing:
        return [f"DeepLab was skipped: no {missing[0]}."]
    scene = picture(folder / SCENE, (257, 257))
    with Image.open(folder / GOLDEN) as image:
        golden = np.asarray(image) // GOLDEN_STEP
    rival = open_litert(str(model), [scene], threads)
    scores_by_engine = {} if rival is None else {"LiteRT CPU": rival()[0]}
    for precision in PRECISIONS:
        with fourfold.Session(model, device=device, precision=precision) as session:
            scores_by_engine[f"fourfold {precision}"] = next(iter(session.run(scene).values()))
    classes = {name: scores[0].argmax(-1) for name, scores in scores_by_engine.items()}
    lines = ["| DeepLab's mask | equal to the golden one | equal to LiteRT's |", "|---|--:|--:|"]
    for name, mask in classes.items():
        beside = np.mean(mask == classes["LiteRT CPU"]) if "LiteRT CPU" in classes else np.nan
        lines.append(f"| {name} | {np.mean(mask == golden):.4%} | {beside:.4%} |")
    return lines


def table_of(rows: Iterable[Row]) -> list[str]:
    lines = ["| model | weights | input | fp32 | mixed | |", "|---|---|---|--:|--:|---|"]
    for row in rows:
        shown = [f"{row.errors[one]:.1e}" if one in row.errors else "-" for one in PRECISIONS]
        cells = (row.model, row.weights, row.fed or "-", *shown, row.note)
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def summary(rows: Sequence[Row]) -> str:
    rows = [row for row in rows if row.counts]
    ran = [row for row in rows if not row.refused]
    within = [
        f"{sum(one not in row.over for row in ran)} of {len(ran)} within {limit:g} in {one}"
        for one, limit in PRECISIONS.items()
    ]
    return f"{len(ran)} of {len(rows)} models with float weights run; {', '.join(within)}."


@click.command(help=__doc__)
@click.option(
    "--shared",
    default=SHARED,
    type=click.Path(path_type=Path),
    help="Folder with models and inputs.",
)
@click.option("--device", default="auto", show_default=True)
@click.option("--threads", default=2, show_default=True, help="Threads of LiteRT.")
@click.option("--only", default="", help="Run only models whose name contains this text.")
@click.option(
    "--output", type=click.Path(path_type=Path), help="Also write the tables to this Markdown file."
)
@click.option(
    "--json", "data", type=click.Path(path_type=Path), help="Write the results to this JSON file."
)
def main(
    shared: Path, device: str, threads: int, only: str, output: Path | None, data: Path | None
) -> None:
    rows = []
    for entry in catalog_of(shared):
        if only in entry["file"]:
            rows.append(compare(entry, shared, device, threads))
            click.echo(f"{rows[-1].model} {dict(rows[-1].errors) or rows[-1].refused}", err=True)
    lines = [summary(rows), "", *table_of(rows), "", *masks(shared, device, threads)]
    click.echo("\n".join(lines))
    if output is not None:
        output.write_text("\n".join(lines) + "\n", encoding="utf-8")
    if data is not None:
        setting = describe_setting(find_device(device))
        write_json(data, {"setting": setting, "models": [vars(row) for row in rows]})


if __name__ == "__main__":
    main()
