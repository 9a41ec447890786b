"""Run op tests and the ten smallest models on every OpenCL implementation of this machine.

Each implementation runs alone, with one thread and with two, in its own processes with empty
caches. A test that hangs or crashes is a line of the result. Ctrl-C prints the results so far.
WORDS are passed to pytest, such as -k softmax after --.
"""

from __future__ import annotations

import platform
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import click
from devices.implementations import THREADS, Implementation, installed, missing
from devices.results import Row, read_rows, write_rows
from devices.run_tests import TESTS, Setting, list_devices, run_tests
from devices.table import faults, skips, table

import fourfold

Words = tuple[str, ...]
_ADD = "File of results written with --json, to include in the table."


@click.command(help=__doc__)
@click.option(
    "--only", multiple=True, help="Run only implementations whose name contains this text."
)
@click.option(
    "--threads",
    multiple=True,
    type=int,
    default=THREADS,
    show_default=True,
    help="Number of threads.",
)
@click.option("--limit", default=300.0, show_default=True, help="Time limit per test, in seconds.")
@click.option(
    "--json", "output", type=click.Path(path_type=Path), help="Write the results to this file."
)
@click.option("--add", multiple=True, type=click.Path(exists=True, path_type=Path), help=_ADD)
@click.option(
    "--run/--no-run", default=True, help="Run the tests, or only show the results of --add."
)
@click.argument("words", nargs=-1)
def main(
    only: tuple[str, ...],
    threads: tuple[int, ...],
    limit: float,
    output: Path | None,
    add: tuple[Path, ...],
    run: bool,
    words: tuple[str, ...],
) -> None:
    rows = [row for path in add for row in read_rows(path)]
    if run:
        try:
            run_all(rows, product(chosen(only), threads), (*TESTS, *words), limit)
        except KeyboardInterrupt:
            click.echo("\ninterrupted", err=True)
    if output is not None:
        setting = {"fourfold": fourfold.__version__, "python": platform.python_version()}
        write_rows(output, {**setting, "machine": platform.platform()}, rows)
    for line in (*table(rows), "", *faults(rows), "", *skips(rows)):
        click.echo(line)
    sys.exit(1 if any(row.bad or row.note for row in rows) else 0)


def chosen(only: Sequence[str]) -> list[Implementation]:
    """Return the installed implementations; print the install commands of the others."""
    result = installed()
    expected = [word.lower() for word in only]

    def asked(name: str) -> bool:
        return not expected or any(word in name.lower() for word in expected)

    for name, command in missing(result).items():
        if asked(name):
            click.echo(f"{name} is not installed: {command}")
    return [one for one in result if asked(one.name)]


def run_all(
    rows: list[Row], settings: Iterable[tuple[Implementation, int]], words: Words, limit: float
) -> None:
    """Add a row for each device of each implementation, with each number of threads."""
    for implementation, threads in settings:
        with tempfile.TemporaryDirectory() as folder:
            setting, result = open_setting(implementation, threads, Path(folder))
            name, note = implementation.name, "" if result else "has no device here"
            rows += [] if result else [Row(name, "", "", threads, note=note)]
            for device in result:
                who = (name, device["device"], device["driver"], threads)
                rows.append(Row(*who, note=device["refused"]))
                if device["refused"]:
                    continue
                where = f"--device={device['address']}"
                run_tests(rows[-1], setting, (*words, where), limit, _progress)
                click.echo(err=True)


def open_setting(
    implementation: Implementation, threads: int, folder: Path
) -> tuple[Setting, list[dict[str, str]]]:
    """Yield an implementation alone, and the devices that it adds."""
    setting = Setting(implementation, threads, implementation.environment(folder / "own", threads))
    result = list_devices(setting)
    if implementation.library:
        nothing = replace(implementation, library="")
        empty = Setting(nothing, threads, nothing.environment(folder / "none", threads))
        others = [(one["device"], one["driver"]) for one in list_devices(empty)]
        result = [one for one in result if (one["device"], one["driver"]) not in others]
    return setting, result


def _progress(row: Row, total: int) -> None:
    title = f"{row.implementation}, threads {row.threads}"
    click.echo(f"\r{title}: {len(row.results)} of {total}, {len(row.bad)} bad", nl=False, err=True)


if __name__ == "__main__":
    main()
