"""Manage the cache: compiled models, kernel binaries and tuned kernel choices.

The cache is a folder of the user (FOURFOLD_CACHE, or --folder). It may be deleted at any time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from fourfold.backends import find_device
from fourfold.cli._images import pixels_options
from fourfold.cli._options import (
    ModelArguments,
    examples,
    json_option,
    model_options,
    placement_options,
)
from fourfold.cli._show import age, byte_count, echo, show_json, show_line, show_table
from fourfold.config import Config, byte_size
from fourfold.errors import InputError
from fourfold.runtime.loading import why_stored_is_unused
from fourfold.runtime.request import model_key_parts
from fourfold.store.entry import BINARY, COMPILED, CONVERTED, Entry
from fourfold.store.folder import NotPrivate, check_cache_folder
from fourfold.store.prepared import is_prepared
from fourfold.store.store import Store, folder_store
from fourfold.store.transfer import export_store, import_store
from fourfold.store.why import Explanation, explain
from fourfold.support.display import count_text

EXAMPLES = examples(
    "fourfold cache info",
    "fourfold cache why model.tflite --precision mixed",
)


@click.group(help=__doc__, epilog=EXAMPLES)
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the cache.  [default: FOURFOLD_CACHE or the user's cache folder]",
)
@click.pass_context
def command(context: click.Context, folder: Path | None) -> None:
    config = Config.from_environment()
    path = folder or config.cache
    if path is None:
        what, why = "there is no cache", "FOURFOLD_CACHE is 'none'"
        raise InputError(what, why, "set it to a folder, or pass --folder")
    try:
        check_cache_folder(Path(path))
    except NotPrivate as error:
        raise InputError(f"the cache in {path} cannot be used", error.why, error.fix) from error
    except OSError:
        pass  # there is none yet; the store reports other errors
    context.obj = folder_store(path, config.cache_limit)


@command.command("list")
@json_option
@click.pass_obj
def list_entries(store: Store, as_json: bool) -> None:
    """List every entry with its size, hits and age, most recently used first."""
    entries = store.entries()
    if as_json:
        show_json({"folder": store.place, "entries": [asdict(entry) for entry in entries]})
        return
    echo(f"{store.place}: {count_text(len(entries), 'entry', 'entries')}\n")
    devices = [one.parts.get("device") or one.parts.get("name", "any device") for one in entries]
    for device in dict.fromkeys(devices):
        of_device = [one for one, name in zip(entries, devices, strict=True) if name == device]
        _show_entries(device, of_device)


def _show_entries(device: str, entries: Sequence[Entry]) -> None:
    rows = [
        (
            entry.kind,
            entry.title,
            entry.parts.get("precision", "-"),
            byte_count(entry.size),
            entry.hits,
            f"{age(entry.used)} ago",
        )
        for entry in entries
    ]
    columns = ("kind", "model", "precision", ">size", ">hits", ">last use")
    show_table(f"for {device}", columns, rows)


@command.command()
@json_option
@click.pass_obj
def info(store: Store, as_json: bool) -> None:
    """Show the folder of the cache, its size, and binaries that are not used."""
    entries = store.entries()
    report: dict[str, Any] = {
        "folder": store.place,
        "limit": store.limit,
        "bytes": sum(entry.size for entry in entries),
        "plans": sum(entry.kind == COMPILED for entry in entries),
        "binaries": sum(entry.kind == BINARY for entry in entries),
        "models": sum(entry.kind == CONVERTED for entry in entries),
        "hits": sum(entry.hits for entry in entries),
        "choices": len(store.choice_rows()),
        "facts": len(store.fact_rows()),
        "quarantined": [list(row) for row in store.quarantined()],
    }
    if as_json:
        show_json(report)
        return
    echo(f"folder    {report['folder']}")
    echo(f"size      {byte_count(report['bytes'])} of {byte_count(report['limit'])}")
    models = f", {count_text(report['models'], 'converted model')}" if report["models"] else ""
    plans, binaries = count_text(report["plans"], "plan"), report["binaries"]
    echo(f"entries   {plans}, {count_text(binaries, 'binary', 'binaries')}{models}")
    echo(f"choices   {report['choices']}")
    echo(f"facts     {report['facts']} of devices, from tests on them")
    echo(f"hits      {report['hits']}")
    for name, reason, since in report["quarantined"]:
        echo(f"not used  binary {name[:12]}: {reason}, {age(since)} ago")


@command.command()
@model_options
@placement_options
@pixels_options
@json_option
@click.pass_obj
def why(store: Store, arguments: ModelArguments, as_json: bool) -> None:
    """Explain whether a model starts from the cache, and if not, how the nearest entry differs."""
    config = Config.from_environment()
    if is_prepared(arguments.model):
        what, why = f"{arguments.model} is a prepared file", "it does not use the cache"
        raise InputError(what, why, "list its contents with 'fourfold inspect'")
    device = find_device(config.device if arguments.device is None else arguments.device)
    request = arguments.request(config, device)
    parts = model_key_parts(request, store)
    answer = explain(parts, store.entries(), request.title)
    outdated = why_stored_is_unused(request, store, parts)
    if as_json:
        data = {**asdict(answer), "outdated": outdated}
        show_json({"model": arguments.model, "parts": parts, **data})
    else:
        _show_answer(arguments.model, answer, outdated)


def _show_answer(model: str, answer: Explanation, outdated: Sequence[str]) -> None:
    if answer.hit and answer.entry is not None:
        entry = answer.entry
        state = f"cached {age(entry.made)} ago, {count_text(entry.hits, 'hit')}"
        show_line(f"{model}: {state}, {byte_count(entry.size)}")
        for reason in outdated:
            show_line(f"    it is compiled again at the next start: {reason}")
    elif answer.entry is None:
        show_line(f"{model}: not cached; the next start caches it")
    else:
        show_line(f"{model}: not cached with these options; the nearest entry differs in")
        rows = [(one.label, one.wanted, one.kept, one.meaning) for one in answer.differences]
        show_table("", ("part", "requested", "cached", "meaning"), rows)


@command.command("verify")
@json_option
@click.pass_obj
def verify_entries(store: Store, as_json: bool) -> None:
    """Check every entry, and delete damaged ones."""
    total, bad = len(store.entries()), store.verify()
    if as_json:
        damaged = [{"key": entry.key, "title": entry.title, "why": why} for entry, why in bad]
        show_json({"folder": store.place, "entries": total, "damaged": damaged})
        return
    for entry, reason in bad:
        echo(f"deleted: {entry.kind} of {entry.title}: {reason}")
    echo(f"{total - len(bad)} of {total} entries are undamaged")


@command.command()
@click.option(
    "--limit",
    metavar="SIZE",
    help="Largest size of the cache, as in --limit 500M.  [default: FOURFOLD_CACHE_LIMIT]",
)
@json_option
@click.pass_obj
def prune(store: Store, limit: str | None, as_json: bool) -> None:
    """Delete the least recently used entries until the cache fits the limit."""
    gone = store.prune(byte_size("--limit", limit) if limit else store.limit)
    size = sum(entry.size for entry in store.entries())
    if as_json:
        show_json({"folder": store.place, "forgotten": gone, "bytes": size})
    else:
        echo(f"{count_text(gone, 'entry', 'entries')} deleted, {byte_count(size)} left")


@command.command()
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@json_option
@click.pass_obj
def clear(store: Store, yes: bool, as_json: bool) -> None:
    """Delete everything, including tuned kernel choices."""
    if not yes and not as_json:
        click.confirm(f"delete everything in {store.place}, also tuned choices?", abort=True)
    count = len(store.entries())
    store.clear()
    if as_json:
        show_json({"folder": store.place, "forgotten": count})
    else:
        echo(f"{count_text(count, 'entry', 'entries')} deleted")


@command.command("export")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@json_option
@click.pass_obj
def export_file(store: Store, file: Path, as_json: bool) -> None:
    """Write all entries and tuned choices to one file."""
    entries, choices, size = export_store(store, file)
    if as_json:
        show_json({"file": str(file), "entries": entries, "choices": choices, "bytes": size})
    else:
        echo(f"{_counts(entries, choices)} in {file}, {byte_count(size)}")


@command.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@json_option
@click.pass_obj
def import_file(store: Store, file: Path, as_json: bool) -> None:
    """Import an exported file. It contains code: import only files that you trust."""
    entries, choices = import_store(store, file)
    if as_json:
        show_json({"file": str(file), "entries": entries, "choices": choices})
    else:
        echo(f"{_counts(entries, choices)} imported from {file}")


def _counts(entries: int, choices: int) -> str:
    return f"{count_text(entries, 'entry', 'entries')} and {count_text(choices, 'choice')}"
