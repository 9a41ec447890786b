"""Export and import of a store as one file, for machines with the same device and driver."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fourfold.errors import MALFORMED, InputError, ModelError
from fourfold.plan import Container, Section, write_container
from fourfold.store.choices import Choice
from fourfold.store.entry import BINARY, CONVERTED, read_head
from fourfold.store.facts import FactRow
from fourfold.store.store import Store
from fourfold.support.log import Log

log = Log("store")

CONTENT = {BINARY: ("binary",), CONVERTED: ("model",)}


def export_store(store: Store, path: Path) -> tuple[int, int, int]:
    """Write all valid entries into one file; return the numbers of entries, choices and bytes."""
    sections: list[Section] = []
    numbers: list[list[int]] = []
    for file in _valid_files(store):
        first = 1 + len(sections)
        sections += [Section(name, file.section(at, name)) for at, name in enumerate(file.names)]
        numbers.append(list(range(first, 1 + len(sections))))
    choices = [
        [one.device, one.key, one.choice, one.seconds, one.effort] for one in store.choice_rows()
    ]
    facts = [list(row) for row in store.fact_rows()]
    head = {"entries": numbers, "choices": choices, "facts": facts}
    start = Section("store", json.dumps(head, ensure_ascii=False).encode())
    try:
        size = write_container(path, [start, *sections], 0o600, sync=True)
    except OSError as error:
        fix = "choose a writable path on a disk with enough free space"
        raise InputError(f"cannot write '{path}'", str(error), fix) from error
    return len(numbers), len(choices), size


def _valid_files(store: Store) -> Iterator[Container]:
    for entry in store.entries():
        try:
            file = store.contents.read(entry.file)
            file.verify()
        except (ModelError, OSError) as error:
            log.warning("skipped a %s of %s: %s", entry.kind, entry.title, error)
            continue
        yield file


def import_store(store: Store, path: Path) -> tuple[int, int]:
    """Add the content of an exported file to a store; return the numbers of entries and choices."""
    try:
        file = Container.open(path)
        file.verify()
        head = json.loads(bytes(file.section(0, "store")))
        count = sum(_take(store, file, numbers) for numbers in head["entries"])
        rows = [_choice(*row) for row in head["choices"]]
        facts = [FactRow(*row) for row in head["facts"]]
    except OSError as error:
        raise InputError(f"cannot read '{path}'", str(error), "check the path") from error
    except MALFORMED as error:
        why, fix = f"its table is invalid: {error!r}", "export the store again"
        raise ModelError(f"'{path}' is damaged", why, fix) from error
    store.put_choices(rows)
    store.put_fact_rows(row for row in facts if row.value is not None)
    return count, len(rows)


def _choice(device: Any, key: Any, choice: Any, seconds: Any, effort: Any = 0) -> Choice:
    return Choice(str(key), str(choice), float(seconds), str(device), int(effort))


def _take(store: Store, file: Container, numbers: list[Any]) -> int:
    kind, title, parts = read_head(file, numbers[0])
    names = [file.names[number] for number in numbers[1:]]
    if tuple(names) != CONTENT.get(kind, tuple(names)):
        log.warn_once(f"skipped an entry of {file.title}: it has {len(numbers)} sections")
        return 0
    data = [
        Section(name, file.section(at, name)) for at, name in zip(numbers[1:], names, strict=True)
    ]
    store.put(kind, title, parts, data)
    return 1
