"""Compares the same networks from .tflite and .onnx files, and with ONNX Runtime.

All engines run in one process with interleaved turns of a few runs, so that noise affects all of
them; the median of a turn is compared with that of the adjacent turn. A value of 1.02 for
'of .tflite' means that the network takes 1.02 times as long from its .onnx file.

--starts also measures the time to the first result in milliseconds, from the cache and from
prepared files. Each start is a new process, and the two formats are interleaved.

MODELS are names of file pairs in FOLDER. Without a folder, MobileNet v1, v2 and ResNet-50 are
written with the same random weights in both formats, which needs no other package.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import click
import numpy as np
from networks import NETWORKS, network_file
from peers import Task, planes
from peers.onnx_file import onnx_bytes
from setting import WORK, describe_setting, relative_error, write_json
from start import Starts

import fourfold
from fourfold.backends import find_device
from fourfold.cli._timing import timed

try:
    import onnxruntime
except ImportError:
    onnxruntime = None

TFLITE, ONNX, RIVAL = "tflite", "onnx", "ONNX Runtime"
TURN_SECONDS, MAX_TURN_RUNS = 0.05, 40
Run = Callable[[], Sequence[np.ndarray]]


def find_pairs(names: Sequence[str], folder: Path | None) -> Iterator[tuple[Path, Path]]:
    """Yield the .tflite and .onnx file of each network."""
    if folder is None:
        yield from (_written(name) for name in names or NETWORKS)
        return
    for tflite in sorted(folder.glob("*.tflite")):
        onnx = tflite.with_suffix(".onnx")
        if onnx.is_file() and (not names or tflite.stem in names):
            yield tflite, onnx


def _written(name: str) -> tuple[Path, Path]:
    if name not in NETWORKS:
        raise click.ClickException(f"unknown network {name!r}; choose from {', '.join(NETWORKS)}")
    tflite = network_file(name, WORK)
    onnx = tflite.with_suffix(".onnx")
    if not onnx.is_file():
        aside = onnx.with_suffix(".part")
        aside.write_bytes(onnx_bytes(Task(tflite, 1, "fp32", "auto", 1).graph))
        aside.replace(onnx)
    return tflite, onnx


def open_session(path: Path, device: str, precision: str, image: np.ndarray) -> Run:
    """Open a session, and return a function that runs it on an image."""
    session = fourfold.Session(path, device, precision, placement="gpu")
    (port,) = session.inputs
    turned = planes(image) if port.shape[1] == image.shape[-1] else image
    feed = {port.name: turned.reshape(port.shape)}
    return lambda: list(session.run(feed).values())


def open_rival(path: Path, threads: int, image: np.ndarray) -> Run | None:
    if onnxruntime is None:
        return None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    options.add_session_config_entry(
        "session.intra_op.allow_spinning", "0"
    )  # other engines run at the same time
    session = onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])
    feed = {session.get_inputs()[0].name: planes(image)}
    return lambda: session.run(None, feed)


def take_turns(runs: dict[str, Run], seconds: float) -> dict[str, list[list[float]]]:
    """Return the seconds of every run, turn by turn."""
    typical = {name: min(timed(run) for _ in range(5)) for name, run in runs.items()}
    turns: dict[str, list[list[float]]] = {name: [] for name in runs}
    began = time.perf_counter()
    while len(turns[TFLITE]) < 3 or time.perf_counter() - began < seconds:
        for name, run in runs.items():
            count = max(2, min(MAX_TURN_RUNS, int(TURN_SECONDS / typical[name])))
            run()  # refills the caches
            turns[name].append([timed(run) for _ in range(count)])
    return turns


def ratios(ours: list[list[float]], others: list[list[float]]) -> dict[str, float]:
    """Return the ratio of the medians of adjacent turns, and of the shortest runs."""
    pairs = zip(ours, others, strict=True)
    return {
        "of medians": median(median(a) / median(b) for a, b in pairs),
        "of minima": min(map(min, ours)) / min(map(min, others)),
    }


def measure(pair: tuple[Path, Path], options: dict[str, Any]) -> dict[str, Any]:
    tflite, onnx = pair
    image = np.random.default_rng(7).uniform(-1, 1, (1, 224, 224, 3)).astype(np.float32)
    settings = (options["device"], options["precision"], image)
    runs: dict[str, Run] = {
        TFLITE: open_session(tflite, *settings),
        ONNX: open_session(onnx, *settings),
    }
    rival = open_rival(onnx, options["threads"], image)
    runs |= {RIVAL: rival} if rival else {}
    flat = {name: [np.ravel(one) for one in run()] for name, run in runs.items()}
    turns = take_turns(runs, options["seconds"])
    everyone = {name: [one for turn in all_ for one in turn] for name, all_ in turns.items()}
    row: dict[str, Any] = {"model": tflite.stem, "turns": len(turns[TFLITE])}
    row["median"] = {name: median(times) for name, times in everyone.items()}
    row["error"] = relative_error(flat[ONNX], flat[RIVAL if rival else TFLITE])
    row["of .tflite"] = ratios(turns[ONNX], turns[TFLITE])
    row["of ONNX Runtime"] = ratios(turns[ONNX], turns[RIVAL]) if rival else None
    return row


def measure_starts(
    pair: tuple[Path, Path], device: str, precision: str, rounds: int
) -> dict[str, dict[str, list[float]]]:
    """Return the seconds of starts by kind and format."""
    kinds = ("kept", "prepared", "prepared, again")
    found: dict[str, dict[str, list[float]]] = {kind: {} for kind in kinds}
    with tempfile.TemporaryDirectory() as work:
        both = {}
        for path in pair:
            folder = Path(work) / path.suffix[1:]
            folder.mkdir()
            both[path.suffix[1:]] = Starts(path, device, precision, folder)
        for starts in both.values():
            starts.prepare()
            starts.first()
        for _ in range(rounds):
            for name, starts in both.items():
                for kind, start in zip(
                    kinds, (starts.kept, starts.shipped, starts.shipped_again), strict=True
                ):
                    found[kind].setdefault(name, []).append(start()["total"])
    return found


def start_table(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    yield "| model | start | .tflite ms | .onnx ms | of .tflite | of minima |"
    yield "|---|---|--:|--:|--:|--:|"
    for row in rows:
        for kind, found in row["starts"].items():
            middle = {name: median(seconds) for name, seconds in found.items()}
            cells = [row["model"], kind, *(f"{middle[name] * 1e3:.0f}" for name in (TFLITE, ONNX))]
            cells.append(f"{middle[ONNX] / middle[TFLITE]:.2f}")
            cells.append(f"{min(found[ONNX]) / min(found[TFLITE]):.2f}")
            yield f"| {' | '.join(cells)} |"


def table(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    titles = ["model", ".tflite ms", ".onnx ms", "of .tflite", "of minima", "ONNX Runtime ms"]
    yield f"| {' | '.join([*titles, 'of it', 'error'])} |"
    yield "|---|--:|--:|--:|--:|--:|--:|--:|"
    for row in rows:
        times, rival = row["median"], row["of ONNX Runtime"]
        cells = [row["model"], f"{times[TFLITE] * 1e3:.3f}", f"{times[ONNX] * 1e3:.3f}"]
        cells += [f"{ratio:.3f}" for ratio in row["of .tflite"].values()]
        cells += [f"{times[RIVAL] * 1e3:.3f}" if rival else "–"]
        cells += [f"{rival['of medians']:.2f}" if rival else "–", f"{row['error']:.1e}"]
        yield f"| {' | '.join(cells)} |"


@click.command(help=__doc__)
@click.argument("models", nargs=-1)
@click.option("--folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--device", default="auto", show_default=True)
@click.option("--precision", help="Precision (default: fp32 on a CPU, mixed on a GPU).")
@click.option("--threads", default=2, show_default=True, help="Threads of ONNX Runtime.")
@click.option("--seconds", default=20.0, show_default=True, help="Measuring time per model.")
@click.option(
    "--starts", default=0, show_default=True, help="Number of starts of each kind and format."
)
@click.option(
    "--json", "output", type=click.Path(path_type=Path), help="Write the results to this JSON file."
)
def main(models: tuple[str, ...], folder: Path | None, output: Path | None, **options: Any) -> None:
    device = find_device(options["device"])
    options["precision"] = options["precision"] or ("fp32" if device.is_cpu else "mixed")
    rows = []
    for pair in find_pairs(models, folder):
        rows.append(measure(pair, options))
        settings = (options["device"], options["precision"], options["starts"])
        rows[-1]["starts"] = measure_starts(pair, *settings) if options["starts"] else {}
        click.echo(f"{rows[-1]['model']}: {rows[-1]['of .tflite']}", err=True)
    lines = [f"{device}, {options['precision']}", "", *table(rows)]
    lines += ["", *start_table(rows)] if options["starts"] else []
    click.echo("\n".join(lines))
    if output is not None:
        write_json(output, {"setting": describe_setting(device), "models": rows})


if __name__ == "__main__":
    main()
