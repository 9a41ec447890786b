"""Make models ready for shipping, as one file that starts hot.

The file holds plans, packed weights, kernel texts, and for each device it was made on the
binaries and tuned choices; and always a generic plan, for any GPU and any CPU, or with --only-here
for any device of the kinds at hand. Session("out.fourfold") needs neither the model nor its reader.
--add keeps what is in an existing file. An interruption or a full disk leaves an existing file as
it was. --device cuda:sm_87 prepares for boards of that architecture, which need not be there;
--adb and --ssh for the GPU of a phone or another machine, whose driver builds and times kernels
there. Nothing is left on it, and a command that was interrupted goes on where it was. --web
prepares for browsers, which play the file with fourfold.js; without --device for these alone.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import click

from fourfold.backends import find_target
from fourfold.backends.connections import MACHINES
from fourfold.cli._completing import complete_device
from fourfold.cli._images import Scaling, scaling_options
from fourfold.cli._options import (
    ADB_HELP,
    SSH_HELP,
    ModelPath,
    json_option,
    parse_shape,
    postprocess_option,
    signature_option,
)
from fourfold.cli._show import (
    byte_count,
    duration,
    progress,
    show_json,
    show_line,
    show_table,
    time_left,
)
from fourfold.compiler.convert.files import readable_file
from fourfold.compiler.tune import LEVELS, Level, find_level
from fourfold.config import PRECISIONS, Config
from fourfold.device import DeviceInfo
from fourfold.errors import InputError
from fourfold.options import CompileOptions, SessionOptions
from fourfold.processing.option import PostprocessOption
from fourfold.store.draft import Draft
from fourfold.store.prepared import Prepared
from fourfold.store.store import Store, configured_store
from fourfold.tools.prepare import (
    GENERIC,
    Progress,
    TuningSummary,
    prepare_generic,
    prepare_model,
    prepare_web,
    tune_model,
)


class Targets(NamedTuple):
    """What to prepare for: devices by name, here or on other machines, and how many units boards
    have that are not there.
    """

    names: tuple[str, ...]
    units: int | None
    web: bool = False

    def devices(self, configured: str) -> list[DeviceInfo]:
        """Those that plans are made for beside browsers: without a word, the configured one."""
        names = self.names or (() if self.web else (configured,))
        return [find_target(name, self.units) for name in names]


def _target_options(command: Callable[..., None]) -> Callable[..., None]:
    """--device, --adb, --ssh, --units and --web, given to the command as one `targets`."""

    @click.option(
        "--device",
        "names",
        multiple=True,
        metavar="NAME",
        help="May be given again.",
        shell_complete=complete_device,
    )
    @click.option("--adb", multiple=True, metavar="SERIAL", help=ADB_HELP)
    @click.option("--ssh", multiple=True, metavar="HOST", help=SSH_HELP)
    @click.option("--units", type=click.IntRange(1), help="Of a board that is not there.")
    @click.option("--web", is_flag=True, help="For browsers, too; alone, if no device is named.")
    @functools.wraps(command)
    def wrapped(
        names: tuple[str, ...],
        adb: tuple[str, ...],
        ssh: tuple[str, ...],
        units: int | None,
        web: bool,
        **rest: Any,
    ) -> None:
        remote = [f"{api}:{name}" for api, all_ in (("adb", adb), ("ssh", ssh)) for name in all_]
        with MACHINES.held():
            command(targets=Targets((*names, *remote), units, web), **rest)

    return wrapped


@click.command(help=__doc__)
@click.argument("models", nargs=-1, required=True, type=ModelPath())
@click.option("-o", "--output", required=True, type=click.Path(dir_okay=False, path_type=Path))
@_target_options
@click.option("--precision", type=click.Choice(PRECISIONS), help="How values are kept.")
@click.option("--shape", "shapes", multiple=True, metavar="NAME=SIZES", help="Of an input.")
@click.option(
    "--tune", "level", type=click.Choice(tuple(LEVELS)), default="none", show_default=True
)
@click.option("--deadline", type=float, metavar="SECONDS", help="Of tuning a model, at most.")
@click.option("--add", is_flag=True, help="Keep what the file already holds.")
@click.option(
    "--everywhere/--only-here", default=True, help="Generic plans for all kinds of devices."
)
@scaling_options
@signature_option
@postprocess_option
@json_option
def command(
    models: tuple[str, ...],
    output: Path,
    targets: Targets,
    add: bool,
    everywhere: bool,
    postprocess: PostprocessOption | None,
    as_json: bool,
    **stated: Any,
) -> None:
    began = time.perf_counter()
    draft = _start(output, add)
    config = Config.from_environment()
    options, level = _read_options(config, **stated)
    options = replace(options, postprocess=postprocess)
    store = configured_store(config)
    found = targets.devices(config.device)
    kinds = [*GENERIC] if everywhere and found else [device.kind for device in found]
    rows, generic = [], []
    for path in models:
        with readable_file(path, store, config.conversion_limit) as readable:
            model = Path(readable)
            rows += [_prepare(draft, model, device, options, level, store) for device in found]
            generic += prepare_generic(draft, model, options, kinds)
            generic += prepare_web(draft, model, options) if targets.web else []
    size = draft.write(output)
    report = {"file": str(output), "bytes": size, "seconds": time.perf_counter() - began}
    (show_json if as_json else _show)({**report, "prepared": rows, "generic": generic})


def _read_options(
    config: Config,
    precision: str | None,
    shapes: tuple[str, ...],
    level: str,
    deadline: float | None,
    scaling: Scaling,
    signature: str | None,
) -> tuple[CompileOptions, Level]:
    """What is to be compiled, and how hard to look for its best kernels."""
    sizes = dict(parse_shape(text) for text in shapes)
    stated = {"precision": precision, "shapes": sizes, "signature": signature}
    options = SessionOptions.of({**stated, "pixels": scaling.only_pixels()})
    return options.compile_options(config), find_level(level, deadline)


def _start(output: Path, add: bool) -> Draft:
    if add and output.exists():
        return Draft.of(Prepared.open(str(output)))
    if output.exists() and not add:
        with output.open("rb") as file:
            if file.read(8) not in (b"FOURFOLD", b""):
                what, why = f"{output} is there already", "it is no prepared file"
                raise InputError(what, why, "choose another name with -o")
    return Draft()


def _prepare(
    draft: Draft,
    model: Path,
    device: DeviceInfo,
    options: CompileOptions,
    level: Level,
    store: Store | None,
) -> dict[str, Any]:
    began = time.perf_counter()
    with _tuning(f"tuning {model.name}") as report:
        found = tune_model(str(model), device, options, level, store, report)
    tuned = time.perf_counter() - began
    with progress() as bar:
        bar.add_task(f"building {model.name} on {device.name}", total=None)
        facts = prepare_model(draft, model, device, options, found.choices, store)
    seconds = time.perf_counter() - began
    names = {"model": model.stem, "device": device.name, "precision": options.precision}
    search = None if found.summary is None else asdict(found.summary)
    return {**names, "tuning": tuned, "search": search, "seconds": seconds, **facts}


@contextmanager
def _tuning(title: str) -> Iterator[Progress]:
    with progress("{task.fields[left]}") as bar:
        task = bar.add_task(title, total=None, left="")

        def report(done: int, total: int, name: str, left: float) -> None:
            what = f"{title} {name}".strip()
            bar.update(task, completed=done, total=total, description=what, left=time_left(left))

        yield report


def _show(report: dict[str, Any]) -> None:
    size, took = byte_count(report["bytes"]), duration(report["seconds"])
    show_line(f"{report['file']}: {size} in {took}\n")
    rows = [*report["prepared"], *report["generic"]]
    for model in dict.fromkeys(row["model"] for row in rows):
        _show_plans(model, [row for row in rows if row["model"] == model])
    for row in report["prepared"]:
        if row["search"]:
            show_line(f"{row['model']} on {row['device']}: {TuningSummary(**row['search'])}")


def _show_plans(model: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """The plans of a model; generic ones are built where they are opened."""
    columns = ("made for", "precision", ">launches", ">binary", ">tuning", ">in all")
    cells = [
        (
            *(row[name] for name in ("device", "precision", "launches")),
            byte_count(row["binary"]) if "binary" in row else "-",
            *(duration(row[name]) if name in row else "-" for name in ("tuning", "seconds")),
        )
        for row in rows
    ]
    show_table(model, columns, cells)
