"""Measures the conversion of models from other frameworks, and the error of the results.

The frameworks run the SavedModels of the collection and some small models in processes of their
own, on random inputs. fourfold then runs them with an empty cache and with a filled one.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import numpy as np
from setting import ROOT, SHARED, describe_setting, installed, relative_error, replace_section

import fourfold
from fourfold.backends import find_device

COMMAND = "python benchmarks/converted.py --write docs/coverage.md"
HEADING = "## Converted models"
PRECISIONS = ("fp32", "mixed")
FRAMEWORKS = {"tensorflow": "tensorflow_models.py", "torch": "torch_models.py"}


def write_models(folder: Path) -> list[Path]:
    """Write models with the results of each installed framework, and return their paths."""
    saved_models = sorted(
        path.parent for path in (SHARED / "models").glob("saved_model/*/saved_model.pb")
    )
    for package, script in FRAMEWORKS.items():
        if find_spec(package) is None:
            click.echo(f"{package} is not installed: pip install 'fourfold[{package}]'", err=True)
            continue
        extra = saved_models if package == "tensorflow" else []
        command = [sys.executable, str(ROOT / "tests" / script), str(folder), *map(str, extra)]
        subprocess.run(command, check=True, capture_output=True)
    kept = {path.name.removesuffix(".npz") for path in folder.glob("*.npz")}
    own = [folder / name for name in sorted(kept) if (folder / name).exists()]
    return [*(path for path in saved_models if path.name in kept), *own]


def look_at(model: Path, kept: Path, device: str, store: Path) -> dict[str, Any]:
    """Measure one model: the times of both starts, and its error in each precision."""
    arrays = np.load(kept)
    ends: dict[str, dict[str, np.ndarray]] = {"inputs": {}, "outputs": {}}
    for name in arrays.files:
        ends[name.partition("/")[0]][name.partition("/")[2]] = arrays[name]
    shapes = {name: array.shape for name, array in ends["inputs"].items()}
    row: dict[str, Any] = {"model": model.name, "starts": [], "errors": {}}
    for precision in ("fp32", *PRECISIONS):  # the first start converts the model
        began = time.perf_counter()
        with fourfold.Session(model, device, precision, shapes, cache=store) as session:
            row["starts"].append(time.perf_counter() - began)
            results = session.run(ends["inputs"])
            placement = session.placement
        named = [results[name] for name in ends["outputs"] if name in results] or list(
            results.values()
        )
        row["errors"][precision] = relative_error(named, list(ends["outputs"].values()))
    row |= {"operators": len(placement.rows), "on_gpu": placement.on_gpu}
    return {**row, "origin": placement.origin}


def lines(rows: Sequence[Mapping[str, Any]], setting: Mapping[str, Any]) -> Iterator[str]:
    versions = [f"{name} {installed(name)}" for name in ("torch", "onnxscript", "keras")]
    yield HEADING
    yield ""
    yield "Models that the framework they come from converts, and the largest difference of an"
    yield "output to what that framework itself computes, relative to the range of the output. The"
    yield "first start converts; the second one finds all in the store, and imports no framework."
    yield "Models as small as these stay in floats with `mixed`, too. Written by"
    yield f"`{COMMAND}` on {setting['device']} ({setting['platform']}),"
    yield f"with {', '.join(versions)}, commit {setting['commit']}."
    yield ""
    yield "| model | converted | on the device | first start | second start | fp32 | mixed |"
    yield "|---|---|---:|---:|---:|---:|---:|"
    for row in rows:
        converter = row["origin"].removeprefix("converted ").partition(",")[0]
        first, second = row["starts"][0], row["starts"][1]
        errors = " | ".join(f"{row['errors'][precision]:.0e}" for precision in PRECISIONS)
        where = f"{row['on_gpu']} of {row['operators']}"
        times = f"{first:.1f} s | {second * 1e3:.0f} ms"
        yield f"| {row['model']} | {converter} | {where} | {times} | {errors} |"


@click.command(help=__doc__)
@click.option("--device", default="auto", show_default=True)
@click.option(
    "--write", type=click.Path(path_type=Path), help="Markdown page whose section is replaced."
)
def main(device: str, write: Path | None) -> None:
    rows = []
    with tempfile.TemporaryDirectory() as place:
        folder, store = Path(place, "models"), Path(place, "store")
        folder.mkdir()
        for model in write_models(folder):
            rows.append(look_at(model, folder / f"{model.name}.npz", device, store))
            click.echo(f"{model.name}: {rows[-1]['errors']}", err=True)
    text = "\n".join(lines(rows, describe_setting(find_device(device)))) + "\n"
    click.echo(text)
    if write is not None:
        replace_section(write, HEADING, text)


if __name__ == "__main__":
    main()
