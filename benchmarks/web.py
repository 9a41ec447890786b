"""Measures models in a browser: size of scripts, time to the first result, and time of a run.

Each engine gets its own page in a new Chromium with empty caches, and the same input; results are
compared with LiteRT on the CPU. The other engines come from a folder prepared with
`npm install onnxruntime-web @litertjs/core @litertjs/wasm-utils esbuild`.
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

sys.path.insert(0, str(ROOT / "tests"))

from browser import Browser, browser_path, open_browser

import fourfold
from fourfold.export.web.server import FolderServer

MODELS = ("mobilenet_v1_025_224_float", "face_detection_short_range")
PAGE_TIMEOUT_S = 300.0
_HEAD = """<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,">
<script type="importmap">
{"imports": {"@litertjs/wasm-utils": "./@litertjs/wasm-utils/dist/index.js"}}
</script>
<script type="module">
const shape = new URLSearchParams(location.search).get('shape').split(',').map(Number);
const input = fetch('input.bin').then((answer) => answer.arrayBuffer())
  .then((bytes) => new Float32Array(bytes));
const text = (array) => {
  let letters = '';
  for (const byte of new Uint8Array(array.buffer, array.byteOffset, array.byteLength)) {
    letters += String.fromCharCode(byte);
  }
  return btoa(letters);
};
// Times count from the navigation. The scripts are all that is loaded but the model and its input.
async function measure(open) {
  try {
    const run = await open();
    const ready = performance.now();
    const numbers = await input;
    const outputs = await run(numbers);
    const first = performance.now();
    const times = [];
    for (let number = 0; number < 10; number++) {
      const began = performance.now();
      await run(numbers);
      times.push(performance.now() - began);
    }
    const files = performance.getEntriesByType('resource');
    const scripts = files.filter((one) => !/\\/(model|input)\\./.test(one.name))
      .reduce((sum, one) => sum + one.decodedBodySize, 0);
    times.sort((one, other) => one - other);
    globalThis.report = { ready, first, run: times[0], scripts, outputs: outputs.map(text) };
  } catch (error) {
    globalThis.report = { problem: String(error?.stack ?? error) };
  }
}
"""
_FOURFOLD = """
import { open } from './fourfold.js';
measure(async () => {
  const model = await open('model.fourfold', { cache: false });
  return async (numbers) => Object.values(await model.run([numbers]));
});
"""
_LITERT = """
import { loadAndCompile, loadLiteRt, Tensor } from './@litertjs/core/dist/index.js';
measure(async () => {
  await loadLiteRt('./@litertjs/core/wasm/', { jspi: JSPI });
  const model = await loadAndCompile('model.tflite', { accelerator: 'webgpu' });
  return async (numbers) => {
    const tensor = new Tensor(numbers, shape);
    const results = await model.run([tensor]);
    const outputs = [];
    for (const result of results) {
      const moved = await result.moveTo('wasm');
      outputs.push(new Float32Array(moved.toTypedArray()));
      moved.delete();
    }
    if (!tensor.deleted) tensor.delete();
    return outputs;
  };
});
"""
_ONNX_RUNTIME = """
import * as ort from './onnxruntime-web/dist/ort.webgpu.bundle.min.mjs';
measure(async () => {
  ort.env.wasm.wasmPaths = new URL('./onnxruntime-web/dist/', location.href).href;
  const options = { executionProviders: ['webgpu'] };
  const session = await ort.InferenceSession.create('model.onnx', options);
  return async (numbers) => {
    const tensor = new ort.Tensor('float32', numbers, shape);
    const results = await session.run({ [session.inputNames[0]]: tensor });
    return session.outputNames.map((name) => results[name].data);
  };
});
"""


def _page(script: str) -> str:
    return f"{_HEAD}{script}</script>\n"


PAGES = {
    "fourfold": _page(_FOURFOLD),
    "litert": _page(_LITERT.replace("JSPI", "false")),
    "litert-jspi": _page(_LITERT.replace("JSPI", "true")),
    "onnxruntime-web": _page(_ONNX_RUNTIME),
}


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
    """Create a folder with everything that the pages of a model load."""
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
    """Build fourfold.js in the same way as `make web`."""
    script = ROOT / "web" / "build.mjs"
    subprocess.run(["node", script, output], cwd=packages, check=True, capture_output=True)


def example(model: Path) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return inputs for a model, and the outputs of LiteRT."""
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
    """Open a page, and return its report with the error of its results."""
    page = browser.page(address)
    found: dict[str, Any] = page.wait_for("globalThis.report", PAGE_TIMEOUT_S)
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
    """Measure all engines with interleaved rounds."""
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
        raise click.ClickException(
            "Chromium was not found; install it with: apt-get install chromium"
        )
    results = {}
    for name in names:
        model = SHARED / "models" / "tflite" / f"{name}.tflite"
        folder = WORK / "web" / name
        make_folder(folder, packages.resolve(), model)
        results[name] = measure(folder, model, rounds)
        show(name, results[name])
    if output is not None:
        setting = {"commit": commit(), "fourfold": fourfold.__version__}
        write_json(output, {"setting": setting, "models": results})


if __name__ == "__main__":
    main()
