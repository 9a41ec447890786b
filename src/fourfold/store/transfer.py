"""A store as one file, for other machines of the same make: written whole, checked when read."""

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
    """Write everything that is whole into one file; gives entries, choices and bytes."""
    sections: list[Section] = []
    numbers: list[list[int]] = []
    for file in _whole(store):
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
        fix = "choose a place that can be written to, with enough room"
        raise InputError(f"cannot write '{path}'", str(error), fix) from error
    return len(numbers), len(choices), size


def _whole(store: Store) -> Iterator[Container]:
    for entry in store.entries():
        try:
            file = store.contents.read(entry.file)
            file.verify()
        except (ModelError, OSError) as error:
            log.warning("a %s of %s is left out: %s", entry.kind, entry.title, error)
            continue
        yield file


def import_store(store: Store, path: Path) -> tuple[int, int]:
    """Take over what an exported file holds; gives entries and choices."""
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
        why, fix = f"its table does not fit: {error!r}", "export the store again"
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
        log.warn_once(f"an entry of {file.title} is left out: it has {len(numbers)} sections")
        return 0
    data = [
        Section(name, file.section(at, name)) for at, name in zip(numbers[1:], names, strict=True)
    ]
    store.put(kind, title, parts, data)
    return 1
