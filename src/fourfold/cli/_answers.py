"""Results of a model as tables of classes, boxes, masks and key points, and as a drawing."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from fourfold.cli._options import Command
from fourfold.cli._show import echo, show_table
from fourfold.errors import InputError
from fourfold.processing.pictures import EXTENSIONS, require_pillow
from fourfold.support.lazy import lazy_import

if TYPE_CHECKING:
    from fourfold.vision import Answer, KeyPoint, KeyPoints, Mask, words
    from fourfold.vision import labels as names_of_classes
    from fourfold.vision import read as reading
    from fourfold.vision.meaning import Described
else:
    names_of_classes = lazy_import("fourfold.vision.labels")
    reading = lazy_import("fourfold.vision.read")
    words = lazy_import("fourfold.vision.words")

DEFAULT_TOP = 5  # classes
MAX_POINTS = 33  # results with more key points show only the first few
MAX_SUMMARY = 3  # classes in the summary of an answer
MIN_SUMMARY_SCORE = 0.01
MIN_SHARE = 0.001  # fraction of a mask; rarer classes are not shown
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_DRAWING = click.Path(path_type=Path)
_DRAW_HELP = "File to draw the result on the picture to; a folder if there are several pictures."
_SCORE_HELP = "Smallest score of a detection.  [default: as is usual for the model]"

Row = tuple[object, ...]


class AnswerOptions(NamedTuple):
    """Labels of classes, how many results to show, and the file of a drawing."""

    labels: tuple[str, ...] = ()
    top: int = DEFAULT_TOP
    score: float | None = None
    drawing: Path | None = None

    def check(self, files: Sequence[str], in_folder: bool = False) -> None:
        """Raise InputError for a drawing that cannot be made, before anything runs. Drawings of
        several files are written to a folder (`in_folder`).
        """
        if self.drawing is None:
            return
        is_picture = self.drawing.suffix.lower() in EXTENSIONS
        if in_folder and (is_picture or self.drawing.is_file()):
            what, why = f"--draw {self.drawing} is one file", "several files may be drawn"
            raise InputError(what, why, "name a folder, as in --draw answers")
        if not in_folder and (not is_picture or self.drawing.is_dir()):
            what = f"--draw {self.drawing} cannot be written"
            why = f"pictures are {', '.join(EXTENSIONS)}"
            raise InputError(what, why, "choose such a name, as in --draw answer.png")
        if not any(Path(text).suffix.lower() in EXTENSIONS for text in files):
            what, why = "--draw has nothing to draw on", "no input is a picture"
            raise InputError(what, why, "pass a photograph after the model: photo.jpg")
        require_pillow("nothing can be drawn")


labels_option = click.option(
    "--labels", type=_FILE, metavar="FILE", help="File with names of classes, one a line."
)


def answer_options(command: Command) -> Command:
    """Add --labels, --top, --score and --draw, passed to the command as one `shown`."""

    @labels_option
    @click.option(
        "--top",
        type=click.IntRange(0),
        default=DEFAULT_TOP,
        show_default=True,
        help="Number of classes to show.",
    )
    @click.option("--score", type=float, help=_SCORE_HELP)
    @click.option("--draw", type=_DRAWING, metavar="PNG", help=_DRAW_HELP)
    @functools.wraps(command)
    def wrapped(
        labels: Path | None, top: int, score: float | None, draw: Path | None, **others: Any
    ) -> None:
        names = () if labels is None else names_of_classes.read_labels(labels)
        command(shown=AnswerOptions(names, top, score, draw), **others)

    return wrapped


def check_answer(model: Described, shown: AnswerOptions) -> None:
    """Raise InputError for labels that do not fit the model and for a drawing of unknown outputs,
    before the model runs.
    """
    if shown.labels:
        reading.check_labels(model, shown.labels)
    meaning = reading.find_meaning(model)
    reason = why_not_drawn(() if meaning is None else meaning.kinds)
    if shown.drawing is not None and reason:
        fix = "leave --draw out, or describe the outputs with --postprocess or --labels"
        raise InputError("there is nothing to draw", reason, fix)


def why_not_drawn(kinds: Sequence[str]) -> str:
    """Return why results of these kinds cannot be drawn; '' if they can."""
    if not kinds:
        return "the meaning of the outputs is unknown"
    return "it is an embedding" if tuple(kinds) == ("embedding",) else ""


def draw_answer(answer: Answer, photograph: Path, path: Path) -> None:
    """Write the drawing; InputError if it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        answer.draw(photograph).save(path)
    except OSError as error:
        fix = "choose a file in a folder that can be written to"
        raise InputError(f"{path} cannot be written", str(error), fix) from error


def show_answer(answer: Answer) -> None:
    """Print all results as tables, with notes on outputs whose meaning is unknown."""
    if answer.known:
        echo(f"{answer.family}, identified by {answer.told_by}")
    for title, columns, rows in _tables(answer):
        show_table(title, columns, rows)
    if answer.kinds[:1] == ("boxes",) and not answer.boxes:
        echo("no boxes: nothing was detected, or no score is high enough")
    for note in answer.notes:
        echo(note)
    if answer.unknown:
        echo(f"the meaning of these outputs is unknown: {', '.join(answer.unknown)}")


def summarise_answer(answer: Answer) -> str:
    """Return the results in a few words, for one row of a table; '' if nothing is known."""
    if not answer.known:
        return ""
    counts = Counter(one.name for one in answer.boxes)
    likely = [one for one in answer.classes if one.score >= MIN_SUMMARY_SCORE] or answer.classes[:1]
    parts = [f"{one.name} {words.format_score(one.score)}" for one in likely[:MAX_SUMMARY]]
    parts += [f"{count} × {name}" for name, count in counts.most_common()]
    for mask in answer.masks:
        shares = mask.shares[:MAX_SUMMARY]
        parts += [f"{one.name} {one.share:.1%}" for one in shares if one.share >= MIN_SHARE]
    parts += [_points_title(one) for one in answer.key_points]
    sizes = [one.pixels.shape for one in answer.pictures]
    parts += [f"a picture of {width} × {height}" for height, width, _ in sizes]
    return "; ".join(parts) or f"no {answer.kinds[0]}"


def _tables(answer: Answer) -> Iterator[tuple[str, tuple[str, ...], list[Row]]]:
    if answer.classes:
        yield "classes", (">class", "label", ">score"), _class_rows(answer)
    if answer.boxes:
        pixels = "in pixels" if answer.size is not None else "as fractions of the picture"
        columns = ("object", ">score", ">left", ">top", ">right", ">bottom")
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
    for points in answer.key_points:
        yield _points_title(points), ("point", ">x", ">y", ">score"), _point_rows(points, answer)


def _class_rows(answer: Answer) -> list[Row]:
    return [(one.number, one.label, words.format_score(one.score)) for one in answer.classes]


def _share_rows(mask: Mask) -> list[Row]:
    shares = [one for one in mask.shares if one.share >= MIN_SHARE]
    return [(one.number, one.label, f"{one.share:.1%}") for one in shares]


def _points_title(points: KeyPoints) -> str:
    score = "" if points.score is None else f", score {words.format_score(points.score)}"
    return f"{points.name}: {sum(points.seen)} of {len(points.points)} points seen{score}"


def _point_rows(points: KeyPoints, answer: Answer) -> list[Row]:
    """Return the visible points; for a mesh of hundreds, only the first few."""
    visible = [one for one, seen in zip(points.points, points.seen, strict=True) if seen]
    position = _position_in(answer)
    rows: list[Row] = [(one.name, *position(one), _score(one)) for one in visible[:MAX_POINTS]]
    return rows if len(visible) <= MAX_POINTS else [*rows[:3], ("…", "", "", "")]


def _position_in(answer: Answer) -> Callable[[KeyPoint], tuple[str, str]]:
    size = answer.size
    if size is None:
        return lambda point: (f"{point.x:.3f}", f"{point.y:.3f}")
    tall, wide = size
    return lambda point: (f"{point.x * wide:.0f}", f"{point.y * tall:.0f}")


def _score(point: KeyPoint) -> str:
    return "-" if point.score is None else words.format_score(point.score)
