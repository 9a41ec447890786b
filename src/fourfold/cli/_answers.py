"""What a model said, shown to people and drawn: options for that, tables, and the drawing."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from fourfold.cli._options import Command
from fourfold.cli._show import show_table
from fourfold.errors import InputError
from fourfold.processing.pictures import EXTENSIONS, require_pillow
from fourfold.support.lazy import lazy_import

if TYPE_CHECKING:
    from fourfold.vision import Answer, KeyPoint, KeyPoints, Mask, words
    from fourfold.vision import labels as names_of_classes
else:
    names_of_classes = lazy_import("fourfold.vision.labels")
    words = lazy_import("fourfold.vision.words")

TOP = 5  # classes that are shown
MOST_POINTS = 33  # points that are shown one by one
LEAST_SHARE = 0.001  # of a mask, for a class to be shown
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_DRAWING = click.Path(dir_okay=False, path_type=Path)
_SCORE_HELP = "The least that counts.  [default: as is usual for the model]"

Row = tuple[object, ...]


class AnswerOptions(NamedTuple):
    """What a caller wants to be told, and where it is to be drawn."""

    labels: tuple[str, ...] = ()
    top: int = TOP
    score: float | None = None
    drawing: Path | None = None

    def check(self, files: Sequence[str]) -> None:
        """What can be known to be wrong before anything runs."""
        if self.drawing is None:
            return
        if self.drawing.suffix.lower() not in EXTENSIONS:
            what = f"--draw {self.drawing} cannot be written"
            why = f"pictures are {', '.join(EXTENSIONS)}"
            raise InputError(what, why, "give it such a name: answer.png")
        if not any(Path(text).suffix.lower() in EXTENSIONS for text in files):
            what, why = "--draw has nothing to draw on", "no --input is a picture"
            raise InputError(what, why, "pass a photograph: --input photo.jpg")
        require_pillow("nothing can be drawn")


def answer_options(command: Command) -> Command:
    """--labels, --top, --score and --draw, given to the command as one `wanted`."""

    @click.option("--labels", type=_FILE, metavar="FILE", help="Names of classes, one a line.")
    @click.option(
        "--top", type=click.IntRange(0), default=TOP, show_default=True, help="Classes shown."
    )
    @click.option("--score", type=float, help=_SCORE_HELP)
    @click.option("--draw", type=_DRAWING, metavar="PNG", help="Draw the answer on the picture.")
    @functools.wraps(command)
    def wrapped(
        labels: Path | None, top: int, score: float | None, draw: Path | None, **rest: Any
    ) -> None:
        names = () if labels is None else names_of_classes.read_labels(labels)
        command(wanted=AnswerOptions(names, top, score, draw), **rest)

    return wrapped


def draw_answer(answer: Answer, photograph: Path, path: Path) -> None:
    """Writes the drawing; a model of which nothing is known draws nothing."""
    if not answer.known or answer.kinds == ("embedding",):
        what = "there is nothing to draw"
        why = "nothing tells what the outputs mean" if not answer.known else "it is an embedding"
        fix = "leave --draw out, or say what outputs are with --postprocess or --labels"
        raise InputError(what, why, fix)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        answer.draw(photograph).save(path)
    except OSError as error:
        fix = "choose a place that can be written to"
        raise InputError(f"{path} cannot be written", str(error), fix) from error


def show_answer(answer: Answer) -> None:
    if answer.known:
        click.echo(f"{answer.family}, told by {answer.told_by}")
    for title, columns, rows in _tables(answer):
        show_table(title, columns, rows)
    if answer.kinds[:1] == ("boxes",) and not answer.boxes:
        click.echo("no boxes: nothing was found, or nothing with a score that counts")
    for note in answer.notes:
        click.echo(note)
    if answer.unknown:
        click.echo(f"nothing tells what these outputs mean: {', '.join(answer.unknown)}")


def _tables(answer: Answer) -> Iterator[tuple[str, tuple[str, ...], list[Row]]]:
    if answer.classes:
        yield "classes", (">class", "label", ">score"), _class_rows(answer)
    if answer.boxes:
        pixels = "in pixels" if answer.size is not None else "as fractions of the picture"
        columns = ("what", ">score", ">left", ">top", ">right", ">bottom")
        rows: list[Row] = [
            (
                one.name,
                words.format_score(one.score),
                *words.format_corners(one.corners, answer.size),
            )
            for one in answer.boxes
        ]
        yield f"boxes, {pixels}", columns, rows
    for mask in answer.masks:
        yield "classes of pixels", (">class", "label", ">share"), _share_rows(mask)
    for found in answer.key_points:
        yield _points_title(found), ("point", ">x", ">y", ">score"), _point_rows(found, answer)


def _class_rows(answer: Answer) -> list[Row]:
    return [(one.number, one.label, words.format_score(one.score)) for one in answer.classes]


def _share_rows(mask: Mask) -> list[Row]:
    shares = [one for one in mask.shares if one.share >= LEAST_SHARE]
    return [(one.number, one.label, f"{one.share:.1%}") for one in shares]


def _points_title(found: KeyPoints) -> str:
    score = "" if found.score is None else f", score {words.format_score(found.score)}"
    return f"{found.name}: {sum(found.seen)} of {len(found.points)} points seen{score}"


def _point_rows(found: KeyPoints, answer: Answer) -> list[Row]:
    """Those that are seen; of a mesh of hundreds the first few."""
    seen = [one for one, there in zip(found.points, found.seen, strict=True) if there]
    place = _place_in(answer)
    rows: list[Row] = [(one.name, *place(one), _score(one)) for one in seen[:MOST_POINTS]]
    return rows if len(seen) <= MOST_POINTS else [*rows[:3], ("…", "", "", "")]


def _place_in(answer: Answer) -> Callable[[KeyPoint], tuple[str, str]]:
    size = answer.size
    if size is None:
        return lambda point: (f"{point.x:.3f}", f"{point.y:.3f}")
    tall, wide = size
    return lambda point: (f"{point.x * wide:.0f}", f"{point.y * tall:.0f}")


def _score(point: KeyPoint) -> str:
    return "-" if point.score is None else words.format_score(point.score)
