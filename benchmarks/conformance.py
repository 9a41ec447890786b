"""Compares files of single operators and unusual shapes with LiteRT.

Float outputs must be within 1e-4 of the range. For quantized files the mean error to the nearer of
LiteRT with and without XNNPACK may be 1.5 times the mean difference of the two, or 0.4 % of the
range. Files that LiteRT cannot run are counted separately.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import click
import numpy as np
from coverage import kind_of
from delegate import ALLOWED, Arrays, interpreter, run
from quantized import worst
from setting import SHARED, relative_error, replace_section

import fourfold
from fourfold.runtime.random_inputs import random_inputs

COMMAND = "python benchmarks/conformance.py --write docs/coverage.md"
HEADING = "## Single operators"
FOLDER = SHARED / "conformance" / "tflite"
TOO_LARGE = ("conv_huge_im2col.bin",)  # a convolution of many gigabytes
FILE_TIMEOUT_S = 60


@dataclass(frozen=True)
class Row:
    """Result of one file: 'agrees', 'differs', 'refused' or 'not by LiteRT', and the reason."""

    file: str
    verdict: str
    why: str = ""
    whole: bool = False

    def __str__(self) -> str:
        return f"| {self.file} | {self.verdict} | {self.why} |"


def look_at(path: Path) -> Row:
    try:
        with fourfold.Session(path, placement="gpu", cache=None) as session:
            draws = [list(random_inputs(session.inputs, 0).values())]
            ours = [list(session.run(draws[0]).values())]
            is_whole = session.placement.whole
    except fourfold.FourfoldError as error:
        verdict = "refused" if theirs(path, None) else "not by LiteRT"
        return Row(path.name, verdict, str(error).splitlines()[0].replace(str(path), path.name))
    fast, plain = theirs(path, draws), theirs(path, draws, plain=True)
    if fast is None:
        return Row(path.name, "not by LiteRT")
    return judged(path, ours, fast, plain or fast, is_whole)


def theirs(path: Path, draws: Sequence[Arrays] | None, plain: bool = False) -> list[Arrays] | None:
    """Return LiteRT's results, for zeros without `draws`; None if it cannot run the file."""
    try:
        engine = interpreter(path.read_bytes(), plain=plain)
        details = engine.get_input_details()
        zeros = [[np.zeros(one["shape"], one["dtype"]) for one in details]]
        return run(engine, zeros if draws is None else draws)
    except (RuntimeError, ValueError):
        return None


def judged(
    path: Path,
    ours: list[Arrays],
    fast: list[Arrays],
    plain: list[Arrays],
    whole: bool,
) -> Row:
    if any(a.shape != b.shape for a, b in zip(ours[0], fast[0], strict=True)):
        return Row(path.name, "differs", "another shape", whole)
    error = min(relative_error(*filled(ours[0], other[0])) for other in (fast, plain))
    if error <= ALLOWED:
        return Row(path.name, "agrees", whole=whole)
    if kind_of(path):
        mean, _, allowed = worst(ours, fast, plain)
        if mean <= allowed:
            return Row(path.name, "agrees", whole=whole)
        return Row(path.name, "differs", f"mean error {mean:.2g}, allowed {allowed:.2g}", whole)
    return Row(path.name, "differs", f"error {error:.2g} of the range", whole)


def filled(ours: Arrays, theirs: Arrays) -> tuple[Arrays, Arrays]:
    """Replace values that are NaN in both results with zero."""
    pairs = []
    for a, b in zip(ours, theirs, strict=True):
        none = np.isnan(a.astype(np.float64)) & np.isnan(b.astype(np.float64))
        pairs.append((np.where(none, 0, a), np.where(none, 0, b)))
    return [a for a, _ in pairs], [b for _, b in pairs]


def lines(rows: Sequence[Row]) -> Iterator[str]:
    counted = [row for row in rows if row.verdict != "not by LiteRT"]
    good = [row for row in counted if row.verdict == "agrees"]
    failures = [row for row in rows if row.verdict != "agrees"]
    yield HEADING
    yield ""
    share = f"{len(good) / max(len(counted), 1):.1%}"
    yield f"Of {len(rows)} files LiteRT runs {len(counted)}; {len(good)} of these agree ({share}),"
    yield f"{sum(row.whole for row in good)} of them wholly on the device. The rest, by"
    yield f"`{COMMAND}`:"
    yield ""
    yield "| file | verdict | why |"
    yield "|---|---|---|"
    yield from map(str, sorted(failures, key=lambda row: (row.verdict, row.file)))


def give_up(number: int, frame: FrameType | None) -> None:
    raise TimeoutError


@click.command(help=__doc__)
@click.argument("files", nargs=-1, type=click.Path(exists=True, path_type=Path))
@click.option(
    "--write", type=click.Path(path_type=Path), help="Markdown page whose section is replaced."
)
def main(files: tuple[Path, ...], write: Path | None) -> None:
    paths = sorted(p for p in FOLDER.rglob("*") if p.suffix in (".tflite", ".bin"))
    rows = [
        Row(path.name, "refused", "not tried: too large")
        for path in paths
        if path.name in TOO_LARGE
    ]
    signal.signal(signal.SIGALRM, give_up)
    for path in files or [one for one in paths if one.name not in TOO_LARGE]:
        signal.alarm(FILE_TIMEOUT_S)
        try:
            rows.append(look_at(path))
        except TimeoutError:
            rows.append(Row(path.name, "refused", f"took longer than {FILE_TIMEOUT_S} s"))
        finally:
            signal.alarm(0)
        click.echo(str(rows[-1]))
    if write is not None:
        replace_section(write, HEADING, "\n".join(lines(rows)) + "\n")


if __name__ == "__main__":
    main()
