"""Compares models in ONNX, Paddle and Caffe formats with the engines of these formats.

Each model is opened with placement='gpu' and gets seeded random inputs. The error is the largest
difference to ONNX Runtime, Paddle Inference or OpenCV's dnn, relative to the range of an output.
Vision models also get photographs, and must give the same answers. Models whose engine is not
installed are skipped with a message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import numpy as np
from PIL import Image
from setting import SHARED, describe_setting, relative_error, replace_section, write_json

import fourfold
from fourfold.backends import find_device

COMMAND = "python benchmarks/other_formats.py --write docs/coverage.md"
HEADING = "## Models of other formats"
ALLOWED = {"fp32": 1e-4, "mixed": 1e-2}
PHOTOGRAPHS = ("burger.jpg", "cat.bmp", "cats_and_dogs.jpg", "grace_hopper.bmp", "squat.bmp")
MIN_SCORE, MAX_MASK_DIFFERENCE, TIE = 0.3, 0.004, 1e-2
Arrays = dict[str, np.ndarray]
Engine = Callable[[Path], Callable[[Arrays], list[np.ndarray]]]


@dataclass(frozen=True)
class Case:
    """A model: its path in the shared folder, sizes of dynamic dimensions, and the kind of answer
    for an image.
    """

    path: str
    shapes: Mapping[str, tuple[int, ...]]
    answer: str = ""


CASES = (
    Case("onnx/FastestDet.onnx", {}, "cells"),
    Case("onnx/basic_pitch.onnx", {}),
    Case("onnx/ch_PP-OCRv4_det_infer.onnx", {"x": (1, 3, 160, 192)}, "mask"),
    Case("onnx/ch_ppocr_mobile_v2.0_cls_mobile.onnx", {"x": (1, 3, 48, 192)}, "class"),
    Case("onnx/magika_v1.onnx", {}),
    Case("onnx/mnv3_detection_opt.onnx", {}, "cells"),
    Case("onnx/sig_bak_ovr.onnx", {}),
    Case("onnx/silero_vad_16k_op15.onnx", {"input": (1, 576)}),
    Case("onnx/super_resolution.onnx", {}, "picture"),
    Case("onnx/version-RFB-320.onnx", {}, "anchors"),
    Case("paddle/ch_ppocr_mobile_v2_cls_infer/inference.pdmodel", {"x": (1, 3, 48, 192)}, "class"),
    Case("paddle/ch_PP-OCRv4_det_infer/inference.pdmodel", {"x": (1, 3, 160, 192)}, "mask"),
    Case("caffe/RFB-320.prototxt", {}, "anchors"),
)


def onnx_runtime(path: Path) -> Callable[[Arrays], list[np.ndarray]]:
    options = import_module("onnxruntime").SessionOptions()
    options.log_severity_level = 3
    session = import_module("onnxruntime").InferenceSession(str(path), options)
    return lambda feed: session.run(None, feed)


def paddle_inference(path: Path) -> Callable[[Arrays], list[np.ndarray]]:
    inference = import_module("paddle.inference")
    config = inference.Config(str(path), str(path.with_suffix(".pdiparams")))
    config.disable_gpu()
    config.disable_mkldnn()
    config.disable_glog_info()
    predictor = inference.create_predictor(config)

    def run(feed: Arrays) -> list[np.ndarray]:
        for name, array in feed.items():
            handle = predictor.get_input_handle(name)
            handle.reshape(array.shape)
            handle.copy_from_cpu(array)
        predictor.run()
        names = predictor.get_output_names()
        return [np.asarray(predictor.get_output_handle(name).copy_to_cpu()) for name in names]

    return run


def opencv_dnn(path: Path) -> Callable[[Arrays], list[np.ndarray]]:
    net = import_module("cv2").dnn.readNetFromCaffe(str(path), str(path.with_suffix(".caffemodel")))

    def run(feed: Arrays) -> list[np.ndarray]:
        (array,) = feed.values()
        net.setInput(array)
        return [np.asarray(one) for one in net.forward(net.getUnconnectedOutLayersNames())]

    return run


ENGINES: dict[str, tuple[str, Engine]] = {
    ".onnx": ("ONNX Runtime", onnx_runtime),
    ".pdmodel": ("Paddle Inference", paddle_inference),
    ".prototxt": ("OpenCV", opencv_dnn),
}


def random_feed(session: fourfold.Session, bytes_: bool) -> Arrays:
    """Return random inputs: numbers around zero, or the bytes of a file."""
    rng = np.random.default_rng(7)
    feed = {}
    for port in session.inputs:
        if port.name == "sr":
            feed[port.name] = np.full(port.shape, 16000, port.dtype)
        elif bytes_:
            feed[port.name] = rng.integers(0, 257, port.shape).astype(port.dtype)
        else:
            feed[port.name] = rng.standard_normal(port.shape).astype(port.dtype)
    return feed


def picture_feed(session: fourfold.Session, photograph: str) -> Arrays:
    (port,) = session.inputs
    _, channels, height, width = port.shape
    with Image.open(SHARED / "inputs" / photograph) as image:
        image = image.convert("L" if channels == 1 else "RGB").resize((width, height))
        pixels = np.asarray(image, np.float32).reshape(height, width, channels)
    scaled = pixels / 255 if channels == 1 else pixels / 127.5 - 1
    return {port.name: np.ascontiguousarray(scaled.transpose(2, 0, 1)[np.newaxis])}


def same_answer(kind: str, ours: Sequence[np.ndarray], theirs: Sequence[np.ndarray]) -> bool:
    """Return whether two engines agree on a class, a mask, the best cells, or anchors."""
    if kind == "class":
        return bool(ours[0].argmax() == theirs[0].argmax())
    if kind == "mask":
        return (
            float(np.mean((ours[0] > MIN_SCORE) != (theirs[0] > MIN_SCORE))) <= MAX_MASK_DIFFERENCE
        )
    if kind == "picture":
        return float(np.abs(ours[0] - theirs[0]).mean()) * 255 <= 0.5  # grey levels
    turned = kind == "anchors"  # [1, anchors, classes]: the best anchor of each class
    pairs = zip(ours, theirs, strict=True)
    return all(_same_cells(*(one[0].T if turned else one[0] for one in pair)) for pair in pairs)


def _same_cells(ours: np.ndarray, theirs: np.ndarray) -> bool:
    """Return whether the best cell of every map is also a best cell of the other engine."""
    mine, other = (one.reshape(one.shape[0], -1) for one in (ours, theirs))
    chosen = other[np.arange(len(other)), mine.argmax(1)]
    return bool((other.max(1) - chosen <= TIE * max(float(np.ptp(other)), 1e-6)).all())


def look_at(case: Case, device: str) -> dict[str, Any]:
    path = SHARED / "models" / case.path
    engine, make = ENGINES[path.suffix]
    title = path.stem if path.stem != "inference" else path.parent.name
    row: dict[str, Any] = {"model": title, "format": path.parts[len(SHARED.parts) + 1]}
    row |= {"engine": engine, "errors": {}, "answers": {}}
    try:
        rival = make(path)
    except ImportError as error:
        return row | {"failed": f"{engine} is not installed: {error.name}"}
    for precision in ALLOWED:
        with fourfold.Session(
            path, device, precision, case.shapes, placement="gpu", cache=None
        ) as session:
            feed = random_feed(session, path.stem == "magika_v1")
            ours, theirs = list(session.run(feed).values()), rival(feed)
            row["errors"][precision] = relative_error(ours, in_order(ours, theirs))
            if case.answer:
                row["answers"][precision] = count_answers(session, rival, case.answer)
            row["operators"], row["on_gpu"] = len(session.placement.rows), session.placement.on_gpu
    return row


def in_order(ours: Sequence[np.ndarray], theirs: list[np.ndarray]) -> list[np.ndarray]:
    """Sort outputs by shape like ours; OpenCV returns them in another order."""
    if [one.shape for one in ours] == [one.shape for one in theirs]:
        return theirs
    by_shape = {one.shape: one for one in theirs}
    return [by_shape.get(one.shape, one * np.nan) for one in ours]


def count_answers(
    session: fourfold.Session, rival: Callable[[Arrays], list[np.ndarray]], kind: str
) -> str:
    same = 0
    for photograph in PHOTOGRAPHS:
        feed = picture_feed(session, photograph)
        ours = list(session.run(feed).values())
        same += same_answer(kind, ours, in_order(ours, rival(feed)))
    return f"{same} of {len(PHOTOGRAPHS)}"


def lines(rows: Sequence[Mapping[str, Any]], setting: Mapping[str, Any]) -> Iterator[str]:
    yield HEADING
    yield ""
    yield "Errors are the largest difference to the format's own engine, relative to the range of"
    yield "the output, for seeded random inputs; what lies beyond 1e-4 (fp32) or 1e-2 (mixed) is in"
    yield f"bold. Answers are those to {len(PHOTOGRAPHS)} photographs that are the same: the class,"
    yield "the mask, the best cell of each map or anchor of each class, the picture to half a grey."
    yield f"Written by `{COMMAND}`"
    yield f"on {setting['device']} ({setting['platform']}), commit {setting['commit']}."
    yield ""
    yield "| model | format | engine | operators | on the GPU | fp32 | mixed | answers | mixed |"
    yield "|---|---|---|---:|---:|---:|---:|---:|---:|"
    yield from map(_line, rows)


def _line(row: Mapping[str, Any]) -> str:
    head = f"| {row['model']} | {row['format']} | {row['engine']} |"
    if "failed" in row:
        return f"{head} | | | {row['failed']} | | |"
    errors = [
        f"{error:.1e}" if error <= ALLOWED[name] else f"**{error:.1e}**"
        for name, error in row["errors"].items()
    ]
    answers = [row["answers"].get(name, "-") for name in ALLOWED]
    return f"{head} {row['operators']} | {row['on_gpu']} | {' | '.join([*errors, *answers])} |"


@click.command(help=__doc__)
@click.argument("names", nargs=-1)
@click.option("--device", default="auto", show_default=True)
@click.option(
    "--write", type=click.Path(path_type=Path), help="Markdown page whose section is replaced."
)
@click.option(
    "--json", "as_json", type=click.Path(path_type=Path), help="Write the rows to this JSON file."
)
def main(names: tuple[str, ...], device: str, write: Path | None, as_json: Path | None) -> None:
    rows = []
    for case in CASES:
        if not names or any(name in case.path for name in names):
            rows.append(look_at(case, device))
            click.echo(_line(rows[-1]))
    setting = describe_setting(find_device(device))
    if write is not None:
        replace_section(write, HEADING, "\n".join(lines(rows, setting)) + "\n")
    if as_json is not None:
        write_json(as_json, {"setting": setting, "models": rows})


if __name__ == "__main__":
    main()
