"""Measures the accuracy and speed of quantized models: MobileNet v2 and an SSD.

    python benchmarks/quantize.py [--method int8] [--ranges minmax] [--write docs/performance.md]

Images are crops of photographs; calibration and evaluation use different photographs. Runs of the
quantized and the float file, in fourfold and in LiteRT, are interleaved in the same process.
MobileNet v2 is available as a quantized file only: its float model has the dequantized weights, and
no rounding of activations.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import numpy as np
from peers.litert import open_litert
from PIL import Image
from setting import SHARED, WORK, describe_setting, replace_section, write_json

import fourfold
from fourfold.formats import formats, read_model
from fourfold.formats.writable import WritableModel
from fourfold.graph import NONE, Graph, Node
from fourfold.ops.dequantize import Dequantize
from fourfold.ops.fake_quantize import FakeQuantize
from fourfold.tools.report.timing import Call, Times, take_turns, warm_up
from fourfold.types import DType

COMMAND = "python benchmarks/quantize.py --write docs/performance.md"
HEADING = "## Quantising after training"
PICTURES = 100
# Photographs for calibration and for evaluation.
CALIBRATING = (
    *("burger.jpg", "cat.bmp", "grace_hopper.bmp", "segmentation_input_rotation0.jpg"),
    *("coffee.png", "motorcycle_left.png", "brick.png", "coins.png"),
)
JUDGING = (
    *("cats_and_dogs.jpg", "bird_segmentation.bmp", "sunflower.bmp", "squat.bmp"),
    *("astronaut.png", "chelsea.png", "rocket.jpg", "horse.png"),
)
MIN_SCORE = 0.5  # boxes below this score are ignored
ROUNDINGS = ("dequantize", "fake_quantize", "quantize")
Outputs = dict[str, np.ndarray]


@dataclass(frozen=True)
class Contest:
    """A float model, the range of its input, and a function that compares answers."""

    title: str
    make: Callable[[Path], Path]
    answer: str
    agree: Callable[[Outputs, Outputs], float]
    low: float = -1.0
    high: float = 1.0


def photographs(shared: Path, names: Sequence[str]) -> list[Path]:
    """Return the available photographs, from the shared folder or from scikit-image."""
    spec = find_spec("skimage")
    roots = list(spec.submodule_search_locations or ()) if spec else []
    folders = [shared / "inputs", *(Path(root) / "data" for root in roots)]
    paths = [folder / name for name in names for folder in folders if (folder / name).is_file()]
    if not paths:
        raise click.ClickException("no photographs were found; pass their folder with --shared")
    return paths


def crops(files: Sequence[Path], size: tuple[int, int], count: int, seed: int) -> list[np.ndarray]:
    """Return random crops of photographs, some of them mirrored, as bytes."""
    random, found = np.random.default_rng(seed), []
    for number in range(count):
        with Image.open(files[number % len(files)]) as image:
            picture = image.convert("RGB")
        share = random.uniform(0.5, 1.0)
        width, height = (max(int(side * share), 1) for side in picture.size)
        left = int(random.integers(0, picture.width - width + 1))
        top = int(random.integers(0, picture.height - height + 1))
        part = picture.crop((left, top, left + width, top + height)).resize(size)
        array = np.asarray(part)
        found.append(array[:, ::-1] if random.random() < 0.5 else array)
    return found


def without_roundings(graph: Graph) -> Graph:
    """Return a quantized graph with float values, inputs and outputs.

    A quantization range that starts at zero stands for a relu6.
    """
    types = {
        name: one if name in graph.constants else replace(one, dtype=DType.F32)
        for name, one in graph.types.items()
    }
    nodes = tuple(_real(node) if node.op in ROUNDINGS else node for node in graph.nodes)
    return graph.with_nodes(nodes, types=types, quantization={})


def _real(node: Node) -> Node:
    clamps = isinstance(node.attributes, FakeQuantize) and node.attributes.low == 0
    return replace(node, op="relu6" if clamps else "identity", attributes=NONE)


def mobilenet(shared: Path) -> Path:
    """Write the float file of a MobileNet v2 that was trained on ImageNet."""
    source = shared / "models" / "tflite" / "tf2_mobilenet_v2_1.0_224_ptq.tflite"
    model = read_model(source)
    scale = next(n.attributes for n in model.main.nodes if isinstance(n.attributes, Dequantize))
    assert abs(scale.scale * 127.5 - 1) < 0.01, "its input is -1 to 1"
    writable = WritableModel(without_roundings(model.main), model.input_names, model.output_names)
    path = WORK / "mobilenet_v2_float.tflite"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(formats()["tflite"].write(writable))
    return path


def detector(shared: Path) -> Path:
    return shared / "models" / "tflite" / "ssd_mobilenet_v2_fp16.tflite"


def same_class(before: Outputs, after: Outputs) -> float:
    (one,), (other,) = before.values(), after.values()
    return float(one.argmax() == other.argmax())


def same_boxes(before: Outputs, after: Outputs) -> float:
    """Return the share of confident boxes on which both models agree."""
    sure = [_sure_boxes(outputs) for outputs in (before, after)]
    either = sure[0] | sure[1]
    return len(sure[0] & sure[1]) / len(either) if either else 1.0


def _sure_boxes(outputs: Outputs) -> set[tuple[int, int]]:
    logits = max(outputs.values(), key=lambda array: array.shape[-1])
    scores = 1 / (1 + np.exp(-logits.reshape(-1, logits.shape[-1])[:, 1:].astype(np.float64)))
    return {
        (int(box), int(scores[box].argmax())) for box in np.flatnonzero(scores.max(1) >= MIN_SCORE)
    }


CONTESTS = (
    Contest("MobileNet v2", mobilenet, "top classes the same", same_class),
    Contest("SSD, MobileNet v2", detector, "boxes the same", same_boxes),
)


def measure(contest: Contest, shared: Path, how: dict[str, Any]) -> dict[str, Any]:
    path = contest.make(shared)
    model = read_model(path)
    height, width = model.main.types[model.main.arguments[0]].shape[1:3]
    span = contest.high - contest.low

    def inputs(names: Sequence[str], seed: int) -> list[np.ndarray]:
        taken = crops(photographs(shared, names), (width, height), how["pictures"], seed)
        return [np.float32(contest.low + span * one[None] / 255) for one in taken]

    judged = inputs(JUDGING, seed=2)
    target = WORK / f"{path.stem}_{how['method']}.tflite"
    report = fourfold.quantize(
        path,
        target,
        how["method"],
        inputs(CALIBRATING, seed=1),
        judge=judged,
        ranges=how["ranges"],
        device=how["device"],
    )
    answers = judge(contest, path, target, judged, how["device"])
    times = race(path, target, judged[0], how)
    assert report.loss is not None
    return {
        "title": contest.title,
        "answer": contest.answer,
        "answers": answers,
        "error": report.loss.error,
        "bytes": [path.stat().st_size, target.stat().st_size],
        "seconds": report.seconds,
        "layers": len(report.layers),
        "times": {name: found.as_data() for name, found in times.items()},
    }


def judge(
    contest: Contest, before: Path, after: Path, pictures: Sequence[np.ndarray], device: str
) -> float:
    """Return the share of answers on which both files agree."""
    with (
        fourfold.Session(before, device, "fp32") as real,
        fourfold.Session(after, device, "fp32") as stored,
    ):
        shares = [contest.agree(real.run(one), stored.run(one)) for one in pictures]
    return float(np.mean(shares))


def race(before: Path, after: Path, picture: np.ndarray, how: dict[str, Any]) -> dict[str, Times]:
    """Time both files in fourfold and in LiteRT."""
    device, threads = how["device"], how["threads"]
    with (
        fourfold.Session(before, device, "fp32") as real,
        fourfold.Session(after, device, "fp32") as stored,
    ):
        calls: dict[str, Call] = {"int8": partial(stored.run, picture)}
        calls["float"] = partial(real.run, picture)
        for name, path in (("LiteRT int8", after), ("LiteRT float", before)):
            rival = open_litert(str(path), [picture], threads)
            if rival is not None:
                calls[name] = rival
        for call in calls.values():
            warm_up(call, limit=2.0)
        return take_turns(calls, how["runs"], how["seconds"])


def lines_of(rows: Sequence[dict[str, Any]], how: dict[str, Any]) -> list[str]:
    count = how["pictures"]
    first = (
        f"{how['method']}, ranges by {how['ranges']} of {count} pictures, judged on {count} others"
    )
    lines = [f"{first}; milliseconds, the shortest run of each:", ""]
    lines.append("| model | answers | error | MiB | int8 | LiteRT's | ratio | float | LiteRT's |")
    lines.append("|---|---|---|---|---|---|---|---|---|")
    lines += [_line(row) for row in rows]
    return lines


def _line(row: dict[str, Any]) -> str:
    least = {name: found["min"] * 1e3 for name, found in row["times"].items()}
    ours, theirs = least["int8"], least.get("LiteRT int8", float("nan"))
    cells = (
        row["title"],
        f"{row['answers']:.1%} {row['answer']}",
        f"{row['error']:.1%}",
        " -> ".join(f"{size / 2**20:.1f}" for size in row["bytes"]),
        f"{ours:.2f}",
        f"{theirs:.2f}",
        f"{ours / theirs:.2f}",
        f"{least['float']:.2f}",
        f"{least.get('LiteRT float', float('nan')):.2f}",
    )
    return f"| {' | '.join(cells)} |"


@click.command(help=__doc__)
@click.option("--device", default="auto", show_default=True)
@click.option("--method", default="int8", show_default=True)
@click.option("--ranges", default="minmax", show_default=True)
@click.option(
    "--pictures",
    default=PICTURES,
    show_default=True,
    help="Images for calibration and for evaluation.",
)
@click.option(
    "--threads", default=os.cpu_count() or 1, show_default=True, help="Threads of LiteRT."
)
@click.option("--runs", default=200, show_default=True, help="Maximum number of runs per engine.")
@click.option(
    "--seconds", default=10.0, show_default=True, help="Time limit of the timing per model."
)
@click.option(
    "--shared",
    default=SHARED,
    type=click.Path(path_type=Path),
    help="Folder with models and photographs.",
)
@click.option(
    "--json", "output", type=click.Path(path_type=Path), help="Write the results to this JSON file."
)
@click.option(
    "--write", type=click.Path(path_type=Path), help="Markdown page whose section is replaced."
)
def main(shared: Path, output: Path | None, write: Path | None, **how: Any) -> None:
    rows = []
    for contest in CONTESTS:
        rows.append(measure(contest, shared, how))
        click.echo(f"{contest.title}: quantised in {rows[-1]['seconds']:.1f} s", err=True)
    setting = describe_setting(fourfold.devices()[0])
    text = "\n".join(lines_of(rows, how))
    click.echo(f"{setting['device']}, driver {setting['driver']}\n{text}")
    if output is not None:
        write_json(output, {"setting": setting, **how, "models": rows})
    if write is not None:
        replace_section(write, HEADING, f"{HEADING}\n\n`{COMMAND}`\n\n{text}\n")


if __name__ == "__main__":
    main()
