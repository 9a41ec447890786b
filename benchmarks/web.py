"""Models in a browser: bytes of scripts, time from navigation to the first result, and of a run.

Each contestant gets a page of its own in a new Chromium, with nothing in any cache, and the same
input; its results are compared with LiteRT's on the CPU. The others are taken from a folder in
which `npm install onnxruntime-web @litertjs/core @litertjs/wasm-utils esbuild` was called.
"""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from statistics import median
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table
from setting import ROOT, SHARED, WORK, commit, relative_error, write_json
from web_pages import PAGES

sys.path.insert(0, str(ROOT / "tests"))

from browser import Browser, browser_path, open_browser

import fourfold
from fourfold.export.web.server import FolderServer

MODELS = ("mobilenet_v1_025_224_float", "face_detection_short_range")
WAIT = 300.0  # seconds for a page


def call_fourfold(*words: str) -> None:
    script = "from fourfold.cli import main; main()"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-c", script, *words],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise click.ClickException(done.stderr[-2000:])


def make_folder(folder: Path, packages: Path, model: Path) -> None:
    """All that the pages of a model load."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(model, folder / "model.tflite")
    call_fourfold("prepare", str(model), "--web", "-o", str(folder / "model.fourfold"))
    call_fourfold("optimize", str(model), "-o", str(folder / "model.onnx"))
    build_player(packages, folder / "fourfold.js")
    for name, page in PAGES.items():
        (folder / f"{name}.html").write_text(page, encoding="utf-8")
    for link in ("onnxruntime-web", "@litertjs"):
        target = folder / link
        if not target.exists():
            target.symlink_to(packages / "node_modules" / link)


def build_player(packages: Path, output: Path) -> None:
    """fourfold.js as `make web` builds it."""
    script = ROOT / "web" / "build.mjs"
    subprocess.run(["node", script, output], cwd=packages, check=True, capture_output=True)


def example(model: Path) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Inputs for a model, and what LiteRT makes of them."""
    from ai_edge_litert.interpreter import Interpreter

    engine = Interpreter(str(model))
    engine.allocate_tensors()
    random = np.random.default_rng(0)
    inputs = []
    for detail in engine.get_input_details():
        inputs.append(random.uniform(-1, 1, detail["shape"]).astype(np.float32))
        engine.set_tensor(detail["index"], inputs[-1])
    engine.invoke()
    return inputs, [engine.get_tensor(one["index"]) for one in engine.get_output_details()]


def visit(browser: Browser, address: str, outputs: list[np.ndarray]) -> dict[str, Any]:
    """What a page tells of itself, with the error of its results."""
    page = browser.page(address)
    found: dict[str, Any] = page.wait_for("globalThis.report", WAIT)
    page.close()
    if "problem" in found:
        return found
    arrays = [np.frombuffer(base64.b64decode(one), np.float32) for one in found.pop("outputs")]
    pairs = [[one for one in arrays if one.size == wanted.size] for wanted in outputs]
    found["error"] = relative_error(
        [one[0].reshape(wanted.shape) for one, wanted in zip(pairs, outputs, strict=True)], outputs
    )
    return found


def measure(folder: Path, model: Path, rounds: int) -> dict[str, Any]:
    """Every contestant, the rounds of all of them mixed."""
    inputs, outputs = example(model)
    (folder / "input.bin").write_bytes(inputs[0].tobytes())
    shape = ",".join(map(str, inputs[0].shape))
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in PAGES}
    with FolderServer(folder) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for _ in range(rounds):
            for name in PAGES:
                with open_browser() as browser:
                    address = f"{server.address}{name}.html?shape={shape}"
                    rows[name].append(visit(browser, address, outputs))
        server.shutdown()
    return {name: summary(found) for name, found in rows.items()}


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    good = [row for row in rows if "problem" not in row]
    if not good:
        return rows[0]
    times = {name: [row[name] for row in good] for name in ("ready", "first", "run")}
    found: dict[str, Any] = {name: min(values) for name, values in times.items()}
    found |= {f"median {name}": median(values) for name, values in times.items()}
    return {**found, "scripts": good[0]["scripts"], "error": max(row["error"] for row in good)}


def show(name: str, rows: dict[str, Any]) -> None:
    table = Table(title=name, header_style="bold")
    for column in ("", "scripts", "ready", "first result", "median", "a run", "median", "error"):
        table.add_column(column, justify="right" if column else "left")
    for title, row in rows.items():
        if "problem" in row:
            table.add_row(title, row["problem"][:100])
            continue
        times = ("ready", "first", "median first", "run", "median run")
        cells = [f"{row[one]:.0f} ms" for one in times]
        table.add_row(title, f"{row['scripts'] / 1024:.1f} KiB", *cells, f"{row['error']:.1e}")
    Console(width=140).print(table)


@click.command(help=__doc__)
@click.argument("packages", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--model", "names", multiple=True, default=MODELS, show_default=True)
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True)
@click.option("--json", "output", type=click.Path(dir_okay=False, path_type=Path))
def main(packages: Path, names: tuple[str, ...], rounds: int, output: Path | None) -> None:
    if browser_path() is None:
        raise click.ClickException("there is no Chromium; apt-get install chromium")
    found = {}
    for name in names:
        model = SHARED / "models" / "tflite" / f"{name}.tflite"
        folder = WORK / "web" / name
        make_folder(folder, packages.resolve(), model)
        found[name] = measure(folder, model, rounds)
        show(name, found[name])
    if output is not None:
        setting = {"commit": commit(), "fourfold": fourfold.__version__}
        write_json(output, {"setting": setting, "models": found})


if __name__ == "__main__":
    main()
