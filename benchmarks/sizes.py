"""Print the sizes of prepared files and of web pages' downloads, compared with the model files.

A prepared file here has the two generic plans, for any CPU and any GPU. With --device it also has
the plan of that device, and its binaries, which are counted apart. A page's download is what a
browser with a GPU fetches of the file for browsers; the page's scripts come on top, about 110 kB.
Sizes are in bytes, and each is followed by its ratio to the model's file.

--before OTHER adds the same figures of another checkout, as `git worktree add ../before COMMIT`
creates it. MODELS are files; the default are all models at hand.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from setting import ROOT, SHARED, WORK, write_json

ENDINGS = (".tflite", ".onnx", ".pdmodel", ".caffemodel", ".pb")
MAX_RATIOS = {"generic": 1.3, "web": 1.1}
# Runs in both checkouts, old and new, so it uses only names that both have.
MEASURE = """
import json, os, sys, tempfile
from pathlib import Path
from fourfold.backends import find_device
from fourfold.compiler.convert.files import readable_file
from fourfold.config import Config
from fourfold.errors import FourfoldError
from fourfold.options import CompileOptions
from fourfold.store.draft import Draft
from fourfold.store.prepared import Prepared
from fourfold.store.models import files_of
from fourfold.tools.preparation import prepare_generic, prepare_model, prepare_web

model, device = Path(sys.argv[1]), sys.argv[2]

def prepare(kind, file, path):
    draft = Draft()
    if kind == "web":
        prepare_web(draft, file, CompileOptions())
    else:
        if device:
            prepare_model(draft, file, find_device(device), CompileOptions(), {})
        prepare_generic(draft, file, CompileOptions(), ["gpu", "cpu"])
    draft.write(path)

def sizes(kind, path):
    prepared = Prepared.open(str(path))
    file, rows = prepared.file, prepared.rows
    used = range(len(file.names))
    if kind == "web":
        used = [0, *rows[0]["sections"][1:4], *rows[0]["sections"][5:], *rows[0].get("weights", ())]
    names, whole = {}, 64 + 48 * len(file.names)
    stored = stored_types(file, rows)
    for number in used:
        name = stored.get(number, file.names[number])
        names[name] = names.get(name, 0) + file.section_size(number)
    total = file.size if kind != "web" else whole + sum(names.values())
    return {"bytes": total - names.get("binary", 0), "sections": names}

def stored_types(file, rows):
    found = {}
    for row in rows:
        for number in row["sections"]:
            if file.names[number] == "plan":
                record = json.loads(bytes(file.section(number, "plan")))
                for piece in record.get("constants", [0, []])[1]:
                    found[row["weights"][piece[5]]] = f"weights as {piece[6]}"
    return found

result = {"model": model.name}
try:
    with tempfile.TemporaryDirectory() as folder, readable_file(str(model), None, Config()) as file:
        result["bytes"] = sum(os.path.getsize(one) for one in files_of(str(model)))
        for kind in ("generic", "web"):
            path = Path(folder, f"{kind}.fourfold")
            try:
                prepare(kind, Path(file), path)
                result[kind] = sizes(kind, path)
            except FourfoldError as error:
                result[kind] = {"error": error.what}
except FourfoldError as error:
    result["error"] = error.what
print(json.dumps(result))
"""


def measure(root: Path, model: Path, device: str) -> dict[str, Any]:
    """Return the sizes of a model as a checkout prepares it."""
    environment = {**os.environ, "PYTHONPATH": str(root / "src"), "FOURFOLD_CACHE": "none"}
    command = [sys.executable, "-c", MEASURE, str(model), device]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"model": model.name, "error": done.stderr.strip().splitlines()[-1]}
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def models_at_hand() -> list[Path]:
    files = (path for path in (SHARED / "models").rglob("*") if path.suffix in ENDINGS)
    return sorted(files, key=lambda path: path.name)


def show(rows: Sequence[Sequence[dict[str, Any]]], titles: Sequence[str]) -> None:
    """Print one line per model; several checkouts side by side."""
    table = Table()
    table.add_column("model")
    table.add_column("file", justify="right")
    for kind in ("prepared", "page"):
        for title in titles:
            table.add_column(f"{kind} {title}".strip(), justify="right")
    for several in rows:
        size = several[-1].get("bytes")
        cells = [_cell(one, kind, size) for kind in ("generic", "web") for one in several]
        table.add_row(several[-1]["model"], f"{size:,}" if size else "", *cells)
    Console(width=140).print(table)


def _cell(result: dict[str, Any], kind: str, size: int | None) -> str:
    found = result.get(kind, result)
    if "error" in found or not size:
        return "not prepared"
    return f"{found['bytes']:,} {found['bytes'] / size:5.2f}"


def show_breakdown(results: Sequence[dict[str, Any]], title: str) -> None:
    """Print the bytes of all prepared files by the names of their sections."""
    for kind in MAX_RATIOS:
        total: dict[str, int] = {}
        for one in results:
            for name, size in one.get(kind, {}).get("sections", {}).items():
                total[name] = total.get(name, 0) + size
        parts = sorted(total.items(), key=lambda item: -item[1])
        click.echo(f"{kind} {title}: " + ", ".join(f"{name} {size:,}" for name, size in parts))


def show_summary(results: Sequence[dict[str, Any]]) -> None:
    """Print how many models are within the aims, and which are not."""
    for kind, limit in MAX_RATIOS.items():
        found = {
            one["model"]: one[kind]["bytes"] / one["bytes"]
            for one in results
            if "bytes" in one.get(kind, {})
        }
        over = [f"{name} {ratio:.2f}" for name, ratio in found.items() if ratio > limit]
        text = f": {', '.join(over)}" if over else ""
        click.echo(f"{kind}: {len(over)} of {len(found)} exceed {limit} times the model{text}")


@click.command(help=__doc__)
@click.argument("models", nargs=-1, type=click.Path(exists=True, path_type=Path))
@click.option("--before", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--device", default="", help="Also prepare for this device, with binaries.")
def main(models: tuple[Path, ...], before: Path | None, device: str) -> None:
    roots = [ROOT] if before is None else [before.resolve(), ROOT]
    titles = [""] if before is None else ["before", "now"]
    rows = [
        [measure(root, model.resolve(), device) for root in roots]
        for model in models or models_at_hand()
    ]
    show(rows, titles)
    for number, title in enumerate(titles):
        show_breakdown([several[number] for several in rows], title)
    show_summary([several[-1] for several in rows])
    WORK.mkdir(parents=True, exist_ok=True)
    write_json(WORK / "sizes.json", {"models": rows})


if __name__ == "__main__":
    main()
