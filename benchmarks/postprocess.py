"""Measures the postprocessing of detectors in NumPy and on the device.

outputs: the model alone, with all outputs downloaded. NumPy: the same, then vectorized decoding and
non-maximum suppression. device: `Session(postprocess=...)`. Runs are interleaved. The last detector
is a YOLO output of 6400 boxes and 80 classes after a single convolution, on noise; the others get a
photograph.

python benchmarks/postprocess.py --seconds 10
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np
from pixels import in_turns
from setting import ROOT, SHARED, describe_setting, write_json

import fourfold
from fourfold import processing
from fourfold.cli._timing import Call, Times, warm_up
from fourfold.formats import formats
from fourfold.formats.writable import WritableModel
from fourfold.graph import Graph, Node
from fourfold.ops.conv2d import Conv2d
from fourfold.ops.reshape import Reshape
from fourfold.ops.transpose import Transpose
from fourfold.processing.anchors import cell_anchors
from fourfold.processing.boxes import FAMILIES, Picking
from fourfold.processing.pictures import read_picture
from fourfold.types import TensorType

Arrays = Mapping[str, np.ndarray]
SIDE, CELLS, CLASSES = 640, 80, 80


class Detector(NamedTuple):
    """A model, its postprocessing option, and the same decoding in NumPy: boxes and scores."""

    model: Path
    option: Picking
    decode: Callable[[Picking, Arrays], tuple[np.ndarray, np.ndarray]]
    noise: bool = False  # the input is noise instead of a photograph


def suppressed(boxes: np.ndarray, scores: np.ndarray, option: Picking) -> list[np.ndarray]:
    """Return for each selected box the boxes that it suppresses, the best first."""
    left, found = np.flatnonzero(scores >= option.score), []
    left = left[np.argsort(-scores[left], kind="stable")]
    areas = np.prod(boxes[:, 2:] - boxes[:, :2], axis=1)
    while left.size and len(found) < option.most:
        first, others = boxes[left[0]], boxes[left]
        sides = np.minimum(first[2:], others[:, 2:]) - np.maximum(first[:2], others[:, :2])
        shared = np.prod(np.maximum(sides, 0), axis=1)
        mine = shared / (areas[left[0]] + areas[left] - shared) > option.overlap
        mine[0] = True
        found.append(left[mine])
        left = left[~mine]
    return found


def corners(centres: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    return np.concatenate([centres - sizes / 2, centres + sizes / 2], axis=1)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-np.maximum(x, -80))))


def decode_faces(option: Picking, outputs: Arrays) -> tuple[np.ndarray, np.ndarray]:
    raw, logits = outputs["regressors"][0], outputs["classificators"][0, :, 0]
    points = raw.reshape(len(raw), -1, 2)[:, :, ::-1] / 128
    boxes = corners(points[:, 0] + FACE_ANCHORS, points[:, 1])
    rows = np.concatenate([boxes, (points[:, 2:] + FACE_ANCHORS[:, None]).reshape(len(raw), -1)], 1)
    scores = sigmoid(logits)
    groups = suppressed(boxes, scores, option)
    blended = [np.average(rows[mine], 0, scores[mine])[:4] for mine in groups]
    return np.array(blended).reshape(-1, 4), np.array([scores[mine[0]] for mine in groups])


def decode_ssd(option: Picking, outputs: Arrays) -> tuple[np.ndarray, np.ndarray]:
    parts = outputs["raw_outputs/box_encodings"][0] / np.float32([10, 10, 5, 5])
    sizes = SSD_ANCHORS[:, 2:]
    boxes = corners(parts[:, :2] * sizes + SSD_ANCHORS[:, :2], np.exp(parts[:, 2:]) * sizes)
    scores = sigmoid(outputs["raw_outputs/class_predictions"][0, :, 1:].max(1))
    indices = [mine[0] for mine in suppressed(boxes, scores, option)]
    return boxes[indices], scores[indices]


def decode_yolo(option: Picking, outputs: Arrays) -> tuple[np.ndarray, np.ndarray]:
    raw = outputs["output0"][0]
    classes, scores = raw[4:].argmax(0), raw[4:].max(0)
    boxes = corners(raw[1::-1].T, raw[3:1:-1].T) / SIDE
    apart = boxes + 10 * classes[:, None]  # boxes of different classes never overlap
    indices = [mine[0] for mine in suppressed(apart, scores, option)]
    return boxes[indices], scores[indices]


FACE_ANCHORS = cell_anchors((128, 128), *FAMILIES["face"])[:, :2]
SSD_ANCHORS = processing.SsdAnchors().rows((300, 300))


def detectors(folder: Path) -> dict[str, Detector]:
    models = SHARED / "models" / "tflite"
    face, ssd = (
        models / f"{name}.tflite"
        for name in ("face_detection_short_range", "ssd_mobilenet_v2_fp16")
    )
    yolo = folder / "yolo.tflite"
    yolo.write_bytes(yolo_output())
    by_name = {
        "face": Detector(face, processing.MediaPipeBoxes(family="face"), decode_faces),
        "SSD": Detector(ssd, processing.SsdBoxes(0.1, logistic=True), decode_ssd),
        "YOLO": Detector(yolo, processing.YoloBoxes(1.5), decode_yolo, noise=True),
    }
    return {name: one for name, one in by_name.items() if one.model.is_file()}


def yolo_output() -> bytes:
    """Return a model with an output [1, 4 + classes, N], from one convolution."""
    random, step, columns = np.random.default_rng(1), SIDE // CELLS, 4 + CLASSES
    bias = np.concatenate([np.full(2, 320.0), np.full(2, 40.0), np.full(CLASSES, 0.2)])
    constants = {
        "filters": random.normal(0, 0.05, (columns, step, step, 3)).astype(np.float32),
        "bias": bias.astype(np.float32),
    }
    constants["filters"][:2] *= 400
    constants["filters"][2:4] *= 20
    sizes = {
        "image": f"f32[1,{SIDE},{SIDE},3]",
        "cells": f"f32[1,{CELLS},{CELLS},{columns}]",
        "rows": f"f32[1,{CELLS**2},{columns}]",
        "output0": f"f32[1,{columns},{CELLS**2}]",
    }
    types = {name: TensorType.parse(text) for name, text in sizes.items()}
    types |= {name: TensorType.of(array) for name, array in constants.items()}
    window, rows = Conv2d(stride=(step, step)), Reshape(types["rows"].shape)
    nodes = (
        Node("conv2d", ("image", "filters", "bias"), ("cells",), window, name="cells"),
        Node("reshape", ("cells",), ("rows",), rows, name="rows"),
        Node("transpose", ("rows",), ("output0",), Transpose((0, 2, 1)), name="output0"),
    )
    graph = Graph(nodes, ("image",), ("output0",), types, constants)
    return formats()["tflite"].write(WritableModel(graph, ("image",), ("output0",)))


def contestants(
    detector: Detector, device: str, precision: str | None, stack: ExitStack
) -> tuple[dict[str, Call], fourfold.Session, int]:
    """Return the calls to time, after comparing them, the session, and the number of boxes."""
    model, option, decode, noise = detector
    opened = [
        stack.enter_context(fourfold.Session(model, device, precision, postprocess=after))
        for after in (None, option)
    ]
    plain, session = opened
    _, height, width, _ = plain.inputs[0].shape
    picture = read_picture(ROOT / "docs" / "faces.jpg", 3, (width, height))[None]
    image = picture / np.float32(127.5) - 1
    if noise:
        image = np.random.default_rng(2).uniform(-1, 1, image.shape).astype(np.float32)
    calls: dict[str, Call] = {
        "outputs": lambda: plain.run(image),
        "NumPy": lambda: decode(option, plain.run(image)),
        "device": lambda: session.run(image),
    }
    boxes, scores = decode(option, plain.run(image))
    results = session.run(image)
    count = int(results["count"][0])
    near = 1e-4 if plain.precision == "fp32" else 2e-2
    pairs = ((results["boxes"], boxes), (results["scores"], scores))
    if count != len(scores) or any(np.abs(a[0, :count] - b).max() > near for a, b in pairs):
        raise click.ClickException(f"{count} boxes on the device differ from NumPy's {len(scores)}")
    return calls, plain, count


def row(name: str, count: int, times: Mapping[str, Times]) -> str:
    cells = [f"{one.median * 1e3:.3f}, {one.min * 1e3:.3f}" for one in times.values()]
    device, base = times["device"], times["NumPy"]
    ratio = f"{device.median / base.median:.2f}, {device.min / base.min:.2f}"
    return f"| {name} | {count} | {' | '.join(cells)} | {ratio} |"


@click.command(help=__doc__)
@click.option("--device", default="auto", show_default=True)
@click.option("--precision", type=click.Choice(("fp32", "mixed", "fp16")))
@click.option("--runs", default=2000, show_default=True, help="Maximum number of runs.")
@click.option("--seconds", default=10.0, show_default=True, help="Time limit per detector.")
@click.option(
    "--json", "output", type=click.Path(path_type=Path), help="Write the results to this JSON file."
)
def main(
    device: str, precision: str | None, runs: int, seconds: float, output: Path | None
) -> None:
    report: dict[str, object] = {}
    click.echo("| detector | boxes | outputs | outputs, NumPy | device | device / NumPy |")
    click.echo("|---|--:|--:|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as folder:
        for name, detector in detectors(Path(folder)).items():
            with ExitStack() as stack:
                calls, session, count = contestants(detector, device, precision, stack)
                for call in calls.values():
                    warm_up(call, limit=seconds / 4)
                times = in_turns(calls, runs, seconds)
                report["setting"] = describe_setting(session.device)
            report[name] = {title: found.as_data() for title, found in times.items()}
            click.echo(row(name, count, times))
    if output is not None:
        write_json(output, report)


if __name__ == "__main__":
    main()
